"""The admin's path by the command line: check, rehearse, apply, look back."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import runyard as ry
from tests.core_process import run_core
from tests.e2e.client.conftest import set_environment
from tests.unit.cli.conftest import Call, Called

POLICY = "resources.mem: {default: 256Mi, max: 64Gi}\n"
TIGHTER = "resources: {mem: {default: 256Mi, max: 4Gi}}\ntimeout: {default: 1d}\n"
SMALL = "id: small\nname: Small\nresources: {mem: 1Gi}\n"
TEMPLATE = "id: big\nresources: {mem: 32Gi}\n---\nkind: Job\nspec: {ttlSecondsAfterFinished: 60}\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ry.Project]:
    """A project with a run of 6Gi, on a server of its own without rules; the current folder has rules."""
    set_environment(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    for name, text in (("policy", POLICY), ("tighter", TIGHTER), ("small", SMALL), ("big", TEMPLATE)):
        (tmp_path / f"{name}.yaml").write_text(text)
    with run_core(folder=tmp_path / "core") as core, ry.Client(core.url) as client:
        monkeypatch.setenv("RUNYARD_ENDPOINT", core.url)
        project = client.new_project("demo")
        project.new_function("box", "container", image="busybox:1.36").run(resources={"mem": "6Gi"})
        yield project


def read_lines(called: Called) -> list[str]:
    assert called.code == 0, called.err
    return [" ".join(line.split()) for line in (called.out + called.err).splitlines()]


def test_policy_is_rehearsed_and_applied_when_an_admin_changes_it(call: Call, project: ry.Project) -> None:
    assert "only the built-in rules apply" in call("policy", "show").err
    assert json.loads(call("policy", "show", "-o", "json").out)["is_built_in"] is True
    assert "applied: policy, revision 1" in read_lines(call("policy", "apply", "policy.yaml", "--yes"))
    assert call("policy", "apply", "policy.yaml", "--yes").out == "unchanged: revision 1\n"

    dry = call("policy", "apply", "tighter.yaml", "--dry-run")
    assert (dry.code, dry.out) == (0, "")
    shown = read_lines(dry)
    assert "policy resources.mem.max 64Gi 4Gi" in shown
    assert "policy timeout.default - 1d" in shown
    assert "rehearsed 1 run: 1 refused" in shown
    assert any(line.startswith("OF FIELD BEFORE AFTER") for line in shown)
    assert any("refused resources.mem.requests 6Gi" in line for line in shown)
    asked = call("policy", "apply", "tighter.yaml", stdin="n\n")
    assert (asked.code, "Apply it?" in asked.err) == (130, True)
    assert call("policy", "apply", "tighter.yaml").code == 2
    assert yaml.safe_load(call("policy", "show").out) == yaml.safe_load(POLICY)

    assert "applied: policy, revision 2" in read_lines(call("policy", "apply", "tighter.yaml", stdin="y\n"))
    history = json.loads(call("policy", "history", "-o", "json").out)
    assert [(one["revision"], one["user"]) for one in history] == [(2, "anonymous"), (1, "anonymous")]
    lines = [line.split() for line in call("policy", "history", "--columns", "revision,fields").out.splitlines()]
    assert lines[1:] == [["2", "resources.mem.max,", "timeout.default"], ["1", "created"]]
    old = call("policy", "show", "--revision", "1").out
    assert yaml.safe_load(old) == yaml.safe_load(POLICY)
    assert call("policy", "apply", "-", "--yes", "--no-rehearse", stdin=old).out == "applied: policy, revision 3\n"
    assert call("policy", "apply", "none", "--yes").out.startswith("deleted: the policy")
    assert call("policy", "apply", "none", "--yes").out == "unchanged: revision 4\n"
    assert "`runyard policy history` lists them" in call("policy", "show", "--revision", "9").err
    assert "revision 4 is a deletion" in call("policy", "show", "--revision", "4").err


def test_policy_changes_nothing_when_it_is_rehearsed(call: Call, project: ry.Project, tmp_path: Path) -> None:
    lines = read_lines(call("policy", "rehearse", "tighter.yaml", "--since", "1h", "--project", "demo"))
    assert lines[-1] == "rehearsed 1 run: 1 refused"
    assert lines[0] == "RUN PROJECT OUTCOME FIELD BEFORE AFTER DECIDED BY"
    assert json.loads(call("policy", "rehearse", "tighter.yaml", "-o", "json").out)["counts"]["refused"] == 1
    assert read_lines(call("policy", "rehearse", "none")) == ["rehearsed 1 run: 1 unchanged"]
    assert read_lines(call("policy", "rehearse", "tighter.yaml", "--until", "1h")) == ["no runs to rehearse"]
    (tmp_path / "default.yaml").write_text("id: default\nresources: {mem: 2Gi}\n")
    assert read_lines(call("policy", "rehearse", "--profiles", "default.yaml"))[-1] == "rehearsed 1 run: 1 smaller"
    assert call("policy", "rehearse").code == 2
    (tmp_path / "core.env").write_text("K8S_RESOURCE_CPU_DEFAULT=100m\n")
    assert "has DigitalHub's settings" in call("policy", "apply", "core.env", "--yes").err
    (tmp_path / "wrong.yaml").write_text("resources.memm: {max: 1Gi}\n")
    wrong = call("policy", "apply", "wrong.yaml", "--yes")
    assert (wrong.code, "wrong.yaml:1:1: error: resources.memm" in wrong.err) == (1, True), wrong.err
    assert "allowed: a policy file, or `none`" in call("policy", "apply", "nowhere.yaml", "--yes").err
    assert call("policy", "history", "-o", "name").out == ""


def test_strict_refuses_what_would_be_a_warning_when_a_profile_contradicts(call: Call, project: ry.Project) -> None:
    assert call("policy", "apply", "tighter.yaml", "--yes").code == 0
    warned = call("profile", "apply", "big.yaml", "--yes")
    assert (warned.code, "warning: " in warned.err, warned.out) == (0, True, "applied: big, revision 1\n")
    assert call("profile", "rm", "big", "--yes").code == 0
    refused = call("profile", "apply", "big.yaml", "--yes", "--strict")
    assert (refused.code, refused.out, "error: " in refused.err) == (1, "", True), refused.err


def test_profiles_are_applied_when_their_files_differ(call: Call, project: ry.Project, tmp_path: Path) -> None:
    assert call("profile", "check", "small.yaml", "big.yaml").out == "ok: 2 profiles: big, small\n"
    done = call("profile", "apply", "small.yaml", "big.yaml", "--yes")
    assert done.out == "applied: small, revision 1\napplied: big, revision 1\n", done.err
    assert "small resources.mem - 1Gi" in [" ".join(line.split()) for line in done.err.splitlines()]
    assert call("profile", "apply", "small.yaml", "big.yaml", "--yes").out == "unchanged: big, small\n"
    shown = call("profile", "show", "big")
    assert list(yaml.safe_load_all(shown.out)) == list(yaml.safe_load_all(TEMPLATE))
    assert "revision 1 by anonymous" in shown.err
    assert json.loads(call("profile", "show", "big", "-o", "json").out)["base"]["Job"] == {"ttl": 60}

    (tmp_path / "small.yaml").write_text(SMALL.replace("1Gi", "2Gi") + "node_selector: {disk: ssd}\n")
    (tmp_path / "big.yaml").write_text(TEMPLATE)
    changed = call("profile", "apply", "small.yaml", "big.yaml", stdin="y\n")
    assert changed.out == "unchanged: big\napplied: small, revision 2\n"
    assert "Apply small?" in changed.err
    compared = [line.split() for line in call("profile", "diff", "small").out.splitlines()]
    assert compared == [
        ["FIELD", "BEFORE", "AFTER"],
        ["resources.mem", "1Gi", "2Gi"],
        ["node_selector.disk", "-", "ssd"],
    ]
    assert json.loads(call("profile", "diff", "small", "2", "1", "-o", "json").out)[0]["after"] == "1Gi"
    assert "one revision only" in call("profile", "diff", "big").err
    assert "`runyard profile history small` lists them" in call("profile", "show", "small", "--revision", "9").err
    assert "did you mean small?" in call("profile", "history", "smal").err
    assert "did you mean small?" in call("profile", "rm", "smal", "--yes").err

    assert "Delete the profile small for new runs?" in call("profile", "rm", "small", stdin="n\n").err
    assert call("profile", "rm", "small", "--yes").out == "deleted: small\n"
    again = call("profile", "apply", "small.yaml", "--yes")
    assert again.out == "applied: small, revision 4\n", again.err
    assert [line.split()[0] for line in call("profile", "history", "small").out.splitlines()[1:]] == [
        "4",
        "3",
        "2",
        "1",
    ]


def test_nothing_is_applied_when_a_file_is_wrong(call: Call, project: ry.Project, tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text("id: wrong\nresource: {mem: 1Gi}\n")
    for command in ("check", "apply"):
        refused = call("profile", command, "small.yaml", "wrong.yaml")
        assert (refused.code, "wrong.yaml:2:1: error: resource" in refused.err) == (1, True), refused.err
    assert call("profile", "ls", "-o", "name").out == ""


def test_files_are_named_when_the_server_reads_its_rules_from_them(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_environment(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profiles").mkdir()
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "tighter.yaml").write_text(TIGHTER)
    (tmp_path / "profiles/small.yaml").write_text(SMALL)
    with run_core(
        "--policy", str(tmp_path / "policy.yaml"), "--profiles", str(tmp_path / "profiles"), folder=tmp_path / "core"
    ) as core:
        monkeypatch.setenv("RUNYARD_ENDPOINT", core.url)
        assert "change the files as well" in call("policy", "apply", "tighter.yaml", "--yes").err
        assert "change the files as well" not in call("policy", "apply", "policy.yaml", "--yes").err
        (tmp_path / "profiles/small.yaml").write_text(SMALL.replace("1Gi", "2Gi"))
        assert "change the files as well" in call("profile", "apply", "profiles", "--yes").err


def test_policy_of_somebody_else_stays_when_it_changed_meanwhile(project: ry.Project, call: Call) -> None:
    with ry.Client() as client:
        before = client.get_policy()
        assert client.put_policy({"resources.mem": {"max": "8Gi"}}, expected_revision=before.revision).revision == 1
        with pytest.raises(ry.Conflict, match="was changed since you read it"):
            client.put_policy({}, expected_revision=before.revision)
        with pytest.raises(ry.Conflict):
            client.put_profile("small", {}, expected_revision=3)
        with pytest.raises(ry.Conflict):
            client.delete_policy(expected_revision=7)
