import json
import os.path as paths
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import pytest

import runyard as ry

OUTSIDE = 3


def helper() -> int:
    return 1


def test_source_stands_alone_when_a_function_is_captured() -> None:
    @ry.function(requirements=["numpy"], resources={"mem": "1Gi"})
    def train_net(name: str, count: int = 2) -> dict[str, Any]:
        """Train."""
        rows = [json.dumps(each) for each in range(count)]
        return {"rows": rows, "name": paths.basename(name)}  # noqa: PTH119

    assert train_net("a/b") == {"rows": ["0", "1"], "name": "b"}
    assert (train_net.name, train_net.__doc__) == ("train-net", "Train.")
    arguments = train_net.to_arguments()
    assert (arguments["requirements"], arguments["handler"]) == (["numpy"], "train_net")
    names: dict[str, Any] = {}
    exec(train_net.code, names)
    assert names["train_net"]("x/y", 1) == {"rows": ["0"], "name": "y"}
    assert "def train_net(name: str, count: int=2):" in train_net.code, "`Any` is not known there"
    assert "ry.function" not in train_net.code
    assert "import json\nimport posixpath as paths\n" in train_net.code


def test_every_reason_is_told_when_a_function_cannot_stand_alone() -> None:
    local = 5

    def wrong() -> int:
        return helper() + OUTSIDE + local + undefined_name  # type: ignore[name-defined,no-any-return]  # noqa: F821

    def unset(count: int = OUTSIDE) -> int:
        return count

    with pytest.raises(ry.ArgumentError, match="unset cannot stand alone: it uses `OUTSIDE`"):
        ry.function()(unset)
    with pytest.raises(ry.ArgumentError) as raised:
        ry.function()(wrong)
    for words in (
        "wrong cannot stand alone",
        "`local` of the function around it",
        "`helper`, which is defined outside",
        "`OUTSIDE`, which is defined outside",
        "`undefined_name`, which is not defined",
        "new_function(code_src=…)",
    ):
        assert words in str(raised.value)


def test_packages_are_required_in_their_versions_when_a_function_imports_them() -> None:
    @ry.function()
    def load(text: str) -> Any:
        import httpx2  # noqa: F401, PLC0415
        from yaml import safe_load  # noqa: PLC0415

        return click.style(json.dumps(safe_load(text)))

    wanted = [f"{name}=={version(name)}" for name in ("PyYAML", "click", "httpx2")]
    assert sorted(load.to_arguments()["requirements"]) == sorted(wanted)
    stated = ry.function(requirements=["click"])(load._function)
    assert stated.to_arguments()["requirements"] == ["click"]

    @ry.function()
    def plain() -> str:
        return json.dumps(1)

    assert plain.to_arguments()["requirements"] == []


def test_module_is_refused_when_no_package_of_an_index_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in (("built", "built"), ("one", "shared"), ("two", "shared")):
        (folder := tmp_path / f"{name}-1.0.dist-info").mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (folder / "top_level.txt").write_text(f"{module}\n")
    (tmp_path / "built-1.0.dist-info" / "direct_url.json").write_text('{"url": "file:///home/ada/built.whl"}')
    monkeypatch.syspath_prepend(tmp_path)

    def load() -> None:
        import built  # type: ignore[import-not-found]  # noqa: F401, PLC0415
        import shared.part  # type: ignore[import-not-found]  # noqa: F401, PLC0415

        import examples.demo  # noqa: F401, PLC0415

    with pytest.raises(ry.ArgumentError) as raised:
        ry.function()(load)
    for words in (
        "it imports `built` of built, which was not installed from an index",
        "it imports `examples`, which is of this machine alone",
        "it imports `shared`, which several packages have: one, two",
        "name packages in `requirements`",
    ):
        assert words in str(raised.value)


def test_other_objects_are_refused_when_they_are_captured() -> None:
    with pytest.raises(ry.ArgumentError, match="not a lambda"):
        ry.function()(lambda: 1)
    with pytest.raises(ry.ArgumentError, match="not a lambda or another object"):
        ry.function()(len)
    code = compile("def made(): return 1", "<made>", "exec")
    names: dict[str, Any] = {}
    exec(code, names)
    with pytest.raises(ry.ArgumentError, match="its source cannot be read"):
        ry.function()(names["made"])
    with pytest.raises(ry.ArgumentError, match="did you mean `requirements`"):
        ry.function(requirement=["x"])  # type: ignore[call-arg]
