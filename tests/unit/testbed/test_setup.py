import os
import shutil
import subprocess

import pytest

from testbed import cli, doctor
from testbed.doctor import Finding
from testbed.site import Options


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    """What was compiled; nothing is, on a machine that lacks nothing."""
    options: list[Options] = []
    monkeypatch.setattr(doctor, "install_packages", lambda: None)
    monkeypatch.setattr(doctor, "missing", lambda **_: [])
    monkeypatch.setattr(doctor, "examine_tests", list)
    monkeypatch.setattr(cli, "prepare", options.append)
    return options


@pytest.mark.parametrize(
    ("arguments", "versions"),
    [([], []), (["--build"], ["1.36"]), (["--build", "--kubernetes", "1.34"], ["1.34"])],
)
def test_only_the_asked_version_is_compiled_when_it_is_set_up(
    prepared: list[Options], arguments: list[str], versions: list[str]
) -> None:
    assert cli.main(["setup", *arguments]) == 0
    assert [options.kubernetes for options in prepared] == versions


@pytest.mark.parametrize(("required", "code"), [("0", 0), ("1", 1)])
def test_setup_fails_when_a_cluster_is_required_and_the_machine_cannot_run_one(
    prepared: list[Options],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    required: str,
    code: int,
) -> None:
    monkeypatch.setattr(doctor, "missing", lambda **_: [Finding("root", False, "run as root")])
    monkeypatch.setenv(doctor.REQUIRED_VARIABLE, required)
    assert cli.main(["setup", "--build"]) == code
    assert capsys.readouterr().err == (
        "testbed: SKIPPED, Kubernetes 1.36 cannot run here: it lacks root (run as root)\n"
    )
    assert prepared == []


def test_setup_goes_on_and_says_so_when_podman_is_missing(
    prepared: list[Options], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "examine_tests", lambda: [Finding("podman", False, "apt-get install podman")])
    assert cli.main(["setup", "--build"]) == 0
    assert capsys.readouterr().err == ("testbed: SKIPPED, some tests: missing podman (apt-get install podman)\n")
    assert len(prepared) == 1


def test_podman_is_installed_with_the_packages_of_the_cluster_when_it_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[list[str]] = []

    def run(argv: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        calls.append(argv)
        return subprocess.CompletedProcess(argv, 0, "", "")

    monkeypatch.setattr(doctor, "examine", list)
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "podman" else f"/usr/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(subprocess, "run", run)
    doctor.install_packages()
    assert calls == [["apt-get", "install", "-y", "--no-install-recommends", "podman"]]
