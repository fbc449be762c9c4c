import json
import os.path as paths
from typing import Any

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
