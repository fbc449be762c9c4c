import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Call


def test_field_is_documented_when_it_is_named(call: Call) -> None:
    called = call("explain", "replicas")
    assert (called.code, called.err) == (0, "")
    assert called.out.startswith("replicas: integer\n\nNumber of replicas of a service.\n")
    for line in (
        "allowed:  0 to 1000",
        "default:  1 (serve, deploy)",
        "used by:  action serve, deploy",
        "policy:   rules of an admin: default, min, max, options, required, locked",
        "  replicas: 2",
    ):
        assert line in called.out.splitlines()


def test_subfields_are_listed_when_a_field_has_some(call: Call) -> None:
    out = call("explain", "volumes").out
    assert [line.split()[0] for line in out.split("FIELD ")[1].splitlines()[1:]] == [
        *("volume_type", "name", "mount_path", "spec")
    ]
    assert "(required)" in out


def test_setters_are_told_when_only_admins_may(call: Call) -> None:
    assert "set by:   admins only, in a profile" in call("explain", "labels").out
    assert "set by:   you, in the run, its task" in call("explain", "envs").out
    assert "set by:   you, in the run file" in call("explain", "kind").out


def test_every_field_is_listed_when_the_whole_run_is_asked(call: Call) -> None:
    called = call("explain", "run")
    assert called.code == 0
    for name in ("kind", "resources", "node_selector", "topology_spread"):
        assert f"\n{name} " in called.out


def test_field_is_data_when_a_program_asks(call: Call) -> None:
    shown = json.loads(call("explain", "python_version", "-o", "json").out)
    assert shown["used_by"] == "kind python"
    assert shown["allowed"].startswith("PYTHON3_10, ")
    assert shown["examples"] == [{"python_version": "PYTHON3_10"}]


def test_nearest_field_is_proposed_when_it_is_unknown(call: Call) -> None:
    called = call("explain", "resources.memry")
    assert (called.code, called.out) == (1, "")
    assert called.err.startswith("error: unknown field `resources.memry`\n")
    assert called.err.endswith("    try: resources.mem\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run.yaml"], "unexpected argument `run.yaml`; did you mean `-f run.yaml`?"),
        (["envs", "-f", "run.yaml"], "unexpected argument `envs`: set either -f FILE or a FIELD"),
        (["envs", "--strict", "--image", "x"], "--image, --strict would have no effect on the field `envs`"),
        ([], "missing: -f FILE, or the FIELD to document, such as `resources.mem`"),
    ],
)
def test_use_is_explained_when_file_and_field_are_mixed_up(
    call: Call, folder: Path, words: list[str], told: str
) -> None:
    called = call("explain", *words)
    assert called.code == 2
    assert called.err.endswith(f"error: {told}\n")
