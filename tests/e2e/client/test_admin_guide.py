"""The page for admins: its commands on a server answer as shown."""

import re
from pathlib import Path

import pytest

import runyard as ry
from tests.core_process import run_core
from tests.e2e.client.conftest import ROOT, set_environment
from tests.e2e.guides import follow, list_commands, read_part
from tests.unit.cli.conftest import Call

PAGE = ROOT / "docs" / "admins" / "profiles-and-policy.md"


def test_policy_is_applied_as_shown_when_the_page_is_followed(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_environment(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text()
    for title, file in (("profile", "profiles/a100.yaml"), ("policy", "policy.yaml")):
        (text,) = re.findall(rf"```yaml\n(# {title}\n.*?)```", page, re.DOTALL)
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    part = read_part(PAGE, "server")
    with run_core(folder=tmp_path / "core") as core, ry.Client(core.url) as client:
        monkeypatch.setenv("RUNYARD_ENDPOINT", core.url)
        project = client.new_project("demo")
        project.new_function("box", "container", image="registry.example.org/box:1").run(resources={"mem": "6Gi"})
        follow(list_commands(part), folder=tmp_path)
        assert "$ runyard policy apply tighter.yaml --since 30d\n" in page
        asked = call("policy", "apply", "tighter.yaml", "--since", "30d", stdin="y\n")
        assert (asked.code, asked.out) == (0, "applied: policy, revision 2\n"), asked.err
        (shown,) = re.findall(r"```text\n(OF .*?)```", page, re.DOTALL)
        printed = [" ".join(line.split()) for line in asked.err.splitlines()]
        for line in shown.splitlines():
            words = " ".join(line.split())
            assert words == "…" or any(each.startswith(words) for each in printed), (line, asked.err)
        (restore,) = re.findall(r"^runyard policy show --revision 3 \|.*$", page, re.MULTILINE)
        follow([(restore.replace("--revision 3", "--revision 1"), "applied: policy, revision 3")], folder=tmp_path)
