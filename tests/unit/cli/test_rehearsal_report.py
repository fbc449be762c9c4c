import json
from pathlib import Path

import pytest
import yaml

from tests.unit.cli.conftest import Call

RUNS = """\
id: big
resources: {mem: 32Gi}
---
- {id: small, resources: {mem: 1Gi}, secrets: [TOKEN], volumes: [{volume_type: shared_volume, name: d, mount_path: /d}]}
- {resources: {cpu: 1}, timeout: 2h}
---
kind: container+job:run
id: entity
project: vision
spec: {task: "container+job://vision/t", resources: {mem: 12Gi}}
"""


@pytest.fixture
def runs(folder: Path) -> Path:
    (folder / "runs.yaml").write_text(RUNS)
    (folder / "new.yaml").write_text("resources.mem: {default: 128Mi, max: 16Gi}\n")
    return folder


def test_outcome_of_every_run_is_told_when_a_policy_is_rehearsed(call: Call, runs: Path) -> None:
    called = call("policy", "diff", "policy.yaml", "new.yaml", "--runs", "runs.yaml")
    assert (called.code, called.err) == (0, "")
    *rows, blank, summary = [" ".join(line.split()) for line in called.out.splitlines()]
    assert (blank, summary) == ("", "1 refused, 1 smaller, 2 unchanged")
    assert rows[0] == "RUN PROJECT OUTCOME FIELD BEFORE AFTER DECIDED BY"
    assert any(row.startswith("big default refused resources.mem.requests 32Gi") for row in rows)
    assert "runs.yaml#3 default smaller resources.mem.requests 256Mi 128Mi policy" in rows
    assert not any(row.startswith(("small", "entity")) for row in rows)


def test_unchanged_runs_are_shown_when_all_are_asked(call: Call, runs: Path) -> None:
    called = call("policy", "diff", "policy.yaml", "new.yaml", "--runs", "runs.yaml", "--all")
    assert "small" in called.out
    assert "entity" in called.out


def test_built_in_policy_is_meant_when_none_is_said(call: Call, runs: Path) -> None:
    called = call("policy", "diff", "none", "new.yaml", "--runs", "runs.yaml", "-o", "json")
    shown = json.loads(called.out)
    assert shown["summary"]["refused"] == 1
    assert [run["id"] for run in shown["runs"]] == ["big", "runs.yaml#3"]
    assert call("policy", "diff", "none", "none", "--runs", "runs.yaml").out == "4 unchanged\n"


def test_data_is_the_same_when_yaml_is_asked(call: Call, runs: Path) -> None:
    base = ("policy", "diff", "none", "new.yaml", "--runs", "runs.yaml", "-o")
    assert yaml.safe_load(call(*base, "yaml").out) == json.loads(call(*base, "json").out)


def test_profiles_make_the_difference_when_only_they_differ(call: Call, runs: Path) -> None:
    (runs / "next").mkdir()
    text = (runs / "profiles/a100.yaml").read_text()
    (runs / "next/a100.yaml").write_text(text.replace("32Gi", "48Gi") + "secrets: [ADMINS]\n")
    (runs / "one.yaml").write_text("id: one\nprofile: 1xa100\n")
    base = ("policy", "diff", "none", "none", "--runs", "one.yaml", "--profiles", "profiles")
    assert call(*base).out == "1 unchanged\n"
    assert call(*base, "--new-profiles", "next").out.splitlines()[-1] == "1 larger"


def test_projects_own_rules_hold_when_the_run_or_the_option_names_it(call: Call, runs: Path) -> None:
    base = ("policy", "diff", "none", "policy.yaml", "--runs", "runs.yaml", "-o", "json")
    assert json.loads(call(*base).out)["summary"]["refused"] == 0
    assert json.loads(call(*base, "--project", "vision").out)["summary"]["refused"] == 1


def test_settings_are_a_side_when_an_admin_moves_over(call: Call, runs: Path) -> None:
    (runs / "core.env").write_text("K8S_RESOURCE_CPU_DEFAULT=100m\n")
    called = call("policy", "diff", "none", "core.env", "--runs", "runs.yaml")
    assert called.out.splitlines()[-1] == "3 larger, 1 unchanged"


def test_runs_come_from_standard_input_when_it_is_named(call: Call, runs: Path) -> None:
    called = call(
        "policy", "diff", "none", "new.yaml", "--runs", "-", "--runs", "runs.yaml", stdin="resources: {cpu: 1}"
    )
    assert called.code == 0
    assert "<stdin>#1" in called.out


def test_every_wrong_run_is_told_when_some_are_wrong(call: Call, runs: Path) -> None:
    (runs / "runs.yaml").write_text("nope: 1\n---\nfs_group: 0\n")
    called = call("policy", "diff", "none", "new.yaml", "--runs", "runs.yaml")
    assert (called.code, called.out) == (1, "")
    assert "runs.yaml:1:7: error: nope" in called.err
    assert "runs.yaml:3:11: error: fs_group" in called.err


def test_refused_by_both_are_counted_apart_with_their_causes_when_there_are_some(call: Call, runs: Path) -> None:
    (runs / "old.yaml").write_text("resources.mem: {max: 16Gi}\n")
    base = ("policy", "diff", "old.yaml", "new.yaml", "--runs", "runs.yaml")
    called = call(*base)
    *_, summary, head, cause, limit = called.out.splitlines()
    assert summary == "1 accepted, 2 unchanged, 1 refused by both"
    assert head == "refused by both:"
    assert (
        cause
        == "    1 run: resources.mem.limits: about 35.2Gi (37795712205) from platform default is above the policy's max"
    )
    assert limit == "    1 run: resources.mem.requests: 32Gi from you is above the policy's max"
    assert "big" not in called.out
    assert "big          default  refused by both" in call(*base, "--all").out
    shown = json.loads(call(*base, "-o", "json").out)
    assert shown["summary"]["refused_by_both"] == 1
    assert [(cause["code"], cause["runs"]) for cause in shown["refused_by_both"]] == [("policy.max", 1)] * 2


def test_forgotten_profiles_are_the_likely_cause_when_a_profile_is_unknown(call: Call, runs: Path) -> None:
    (runs / "many.yaml").write_text("---\n".join(f"id: r{number}\nprofile: 1xa100\n" for number in range(3)))
    base = ("policy", "diff", "none", "new.yaml", "--runs", "many.yaml")
    assert call(*base).out.splitlines() == [
        "3 refused by both",
        "refused by both:",
        "    3 runs: profile: there is no profile `1xa100`",
        "    likely cause: --profiles DIR is missing",
    ]
    (runs / "other.yaml").write_text("id: other\n")
    assert call(*base, "--profiles", "other.yaml").out.splitlines()[-1] == (
        "    likely cause: --profiles DIR does not have all profiles that the runs name"
    )
    assert "likely cause" not in call(*base, "--profiles", "profiles").out


@pytest.mark.parametrize(
    "arguments",
    [
        ["none", "none"],
        ["none", "--runs", "runs.yaml"],
        ["none", "nowhere.yaml", "--runs", "runs.yaml"],
        ["none", "profiles", "--runs", "runs.yaml"],
        ["-", "-", "--runs", "runs.yaml"],
        ["-", "none", "--runs", "-"],
        ["none", "none", "--runs", "-", "--runs", "-"],
        ["none", "none", "--runs", "nowhere.yaml"],
        ["none", "none", "--runs", "runs.yaml", "--project", "X"],
    ],
)
def test_exit_code_is_2_when_used_wrongly(call: Call, runs: Path, arguments: list[str]) -> None:
    called = call("policy", "diff", *arguments)
    assert (called.code, called.out) == (2, "")
    assert "error: " in called.err


def test_policy_is_confirmed_when_it_is_sound(call: Call, folder: Path) -> None:
    called = call("policy", "check", "policy.yaml")
    assert (called.code, called.err) == (0, "")
    assert called.out == "policy: ok; fields with rules: 2, projects with their own: 1\n"


def test_doubts_and_problems_of_a_policy_are_told_when_checked(call: Call) -> None:
    idle = "resources.mem: {max: 8Gi}\nprojects: {ai: {resources.mem: {max: 9Gi}}}\n"
    called = call("policy", "check", "-", stdin=idle)
    assert called.code == 0
    assert "<stdin>:2:38: warning: " in called.err
    called = call("policy", "check", "-", stdin="resources.memory: {max: 8Gi}\n")
    assert (called.code, called.out) == (1, "")
    assert "try: resources.mem" in called.err


def test_form_is_named_when_settings_are_checked(call: Call) -> None:
    called = call("policy", "check", "-", stdin="K8S_SEC_USER=1000\nK8S_NAMESPACE=x\n")
    assert called.out.startswith("DigitalHub settings: ok")
    assert "<stdin>:2:15: warning: K8S_NAMESPACE: ignored: the namespace is a setting of the server" in called.err
