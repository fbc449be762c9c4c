import json
from pathlib import Path

import pytest
import yaml

from runyard.domain.effective_spec import iter_leaves
from runyard.spec.problems import format_path
from tests.unit.cli.conftest import BUILT_IN_NOTE, Call

FILES_NOTE = "note: answered offline, by --profiles, --policy\n"


def test_table_says_who_set_what_and_what_it_replaced_when_explained(call: Call, folder: Path) -> None:
    called = call("explain", "-f", "run.yaml", "--profiles", "profiles", "--policy", "policy.yaml")
    assert (called.code, called.err) == (0, FILES_NOTE)
    rows = [" ".join(line.split()) for line in called.out.splitlines()]
    assert "FIELD VALUE SET BY REPLACED" in rows
    assert "resources.mem.requests 32Gi profile 1xa100 6Gi (you)" in rows
    assert "resources.mem.limits about 35.2Gi (37795712205) platform default (requests × 1.1)" in rows
    assert "image busybox:1.36 you" in rows
    assert "action job platform default" in rows


def test_warnings_and_refusals_follow_the_table_when_there_are_some(call: Call, folder: Path) -> None:
    called = call(
        "explain", "-f", "run.yaml", "--profiles", "profiles", "--policy", "policy.yaml", "--project", "vision"
    )
    assert (called.code, called.err) == (1, FILES_NOTE)
    table, _, rest = called.out.partition("\n\n")[2].partition("\n\n")
    assert table.startswith("FIELD")
    lines = rest.splitlines()
    assert lines[0].startswith("run.yaml:2:18: warning: resources.mem.requests: profile 1xa100 sets 32Gi")
    # The profile set it, so no line of the run is to blame.
    assert (
        "error: resources.mem.requests: 32Gi from profile 1xa100 is above the policy of project vision's max" in lines
    )


def test_values_that_lose_are_refused_when_strict(call: Call, folder: Path) -> None:
    called = call("explain", "-f", "run.yaml", "--profiles", "profiles", "--strict")
    assert called.code == 1
    assert "run.yaml:2:18: error: resources.mem.requests" in called.out
    assert "FIELD" in called.out


def test_durations_and_long_values_are_readable_when_in_a_table(call: Call) -> None:
    source = {"source": "print(1)\n" * 99}
    run = yaml.safe_dump({"timeout": "2h", "kind": "python", "source": source, "image": "a:1", "command": "python"})
    called = call("explain", "-f", "-", stdin=run)
    assert called.code == 0, called.out
    rows = [" ".join(line.split()) for line in called.out.splitlines()]
    assert "timeout 2h you" in rows
    assert all(len(row) < 200 for row in rows)


def test_every_leaf_has_its_owner_when_json_is_asked(call: Call, folder: Path) -> None:
    called = call("explain", "-f", "run.yaml", "--profiles", "profiles", "--policy", "policy.yaml", "-o", "json")
    assert (called.code, called.err) == (0, FILES_NOTE)
    shown = json.loads(called.out)
    assert shown["answered_by"] == "offline"
    assert list(shown) == ["answered_by", "run", "effective", "provenance", "warnings", "refusals"]
    owned = {leaf["path"]: leaf["value"] for leaf in shown["provenance"]}
    assert owned == {format_path(path): value for path, value in iter_leaves(shown["effective"])}
    (memory,) = [leaf for leaf in shown["provenance"] if leaf["path"] == "resources.mem.requests"]
    assert memory == {
        "path": "resources.mem.requests",
        "value": "32Gi",
        "set_by": "profile",
        "source": "profile 1xa100",
        "rule": None,
        "replaced": [{"by": "you", "value": "6Gi"}],
    }
    (warning,) = shown["warnings"]
    assert (warning["file"], warning["line"], warning["column"]) == ("run.yaml", 2, 18)


def test_yaml_is_the_same_data_when_asked(call: Call, folder: Path) -> None:
    base = ("explain", "-f", "run.yaml", "--profiles", "profiles", "-o")
    assert yaml.safe_load(call(*base, "yaml").out) == json.loads(call(*base, "json").out)


def test_problems_are_data_when_the_run_cannot_be_read(call: Call) -> None:
    called = call("explain", "-f", "-", "-o", "json", stdin="nope: 1\n")
    assert (called.code, called.err) == (1, "")
    shown = json.loads(called.out)
    assert shown["effective"] is None
    (refusal,) = shown["refusals"]
    assert (refusal["code"], refusal["line"]) == ("field.unknown", 1)


def test_problems_are_on_standard_error_when_there_is_no_table(call: Call) -> None:
    called = call("explain", "-f", "-", stdin="resources:\ncpu: 8\n")
    assert (called.code, called.out) == (1, "refused: 1 problem\n")
    assert "<stdin>:2:6: error: cpu: `cpu` belongs under `resources`" in called.err


def test_values_are_shown_before_the_refusal_when_a_run_has_no_image(call: Call) -> None:
    called = call("explain", "-f", "-", stdin="resources: {cpu: 8}\n")
    assert (called.code, called.err) == (1, BUILT_IN_NOTE)
    rows = [" ".join(line.split()) for line in called.out.splitlines()]
    assert "resources.cpu.requests 8 you" in rows
    assert rows[-3:] == [
        "<stdin>: error: image: a run needs an `image`",
        "allowed: `image` in the file, or --image IMAGE",
        "refused: 1 problem",
    ]


def test_place_is_the_runs_when_a_limit_follows_from_its_request(call: Call, folder: Path) -> None:
    called = call("explain", "-f", "-", "--policy", "policy.yaml", stdin="resources:\n  mem: 65Gi\n")
    assert called.code == 1
    assert "<stdin>:2:8: error: resources.mem.requests: 65Gi" in called.out
    assert "<stdin>:2:8: error: resources.mem.limits:" in called.out


VERDICTS = {
    "image: a:1": "would start",
    "{image: a:1, resources: {mem: 2048}}": "would start, 1 warning",
    "{resources: {mem: 6Gi}}": "refused: 1 problem",
    "{image: a:1, run_as_user: 0}": "refused: 1 problem",
    "{secrets: [A], resources: {mem: 2048}}": "refused: 2 problems, 1 warning",
    "nope: 1": "refused: 1 problem",
    "{nope: 1, fs_group: 0}": "refused: 2 problems",
    "a: [": "refused: 1 problem",
}


@pytest.mark.parametrize(("run", "verdict"), VERDICTS.items())
def test_last_line_is_the_verdict_and_the_exit_code_that_of_render_when_explained(
    call: Call, run: str, verdict: str
) -> None:
    called = call("explain", "-f", "-", stdin=run)
    assert called.out.splitlines()[-1] == verdict
    assert called.code == call("render", "-f", "-", stdin=run).code == (0 if verdict.startswith("would") else 1)
    for output in ("json", "yaml"):
        assert call("explain", "-f", "-", "-o", output, stdin=run).code == called.code
