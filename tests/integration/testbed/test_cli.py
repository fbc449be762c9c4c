"""Bad input to the testbed ends with one clear line, and nothing is half-started."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.supervision import PROJECT_ROOT

is_root = os.geteuid() == 0


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path: unix sockets lie below it, and pytest's own is too long for them."""
    path = Path(tempfile.mkdtemp(prefix="ry"))
    yield path
    shutil.rmtree(path)


def run(*arguments: str, state: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "testbed", *arguments],
        cwd=PROJECT_ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "RUNYARD_TESTBED_STATE": str(state), **environment},
    )


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--kubernetes", "1.35"], "testbed: unknown Kubernetes version `1.35`; allowed: 1.36, 1.34"),
        (["--name", "Big One"], "testbed: --name Big One: not a valid name; allowed: 1 to 24 lower-case letters"),
        (["--name", "../../etc"], "testbed: --name ../../etc: not a valid name; allowed: "),
        (["--gpus", "-1"], "testbed: --gpus -1: out of range; allowed: 0 to 10000"),
        (["--no-node", "--gpus", "2"], "testbed: --gpus and --metrics need a node: leave out --no-node"),
        (["--flag=--v=4"], "testbed: --flag --v=4: unknown component `--v`: "),
        (["--flag", "kube-api=--v=4"], "testbed: --flag kube-api=--v=4: unknown component `kube-api`: did you mean"),
        (["--flag", "kube-apiserver=v"], "testbed: --flag kube-apiserver=v: not a flag; allowed: COMPONENT=--FLAG"),
        (["--slot", "64"], "testbed: --slot 64: out of range; allowed: 0 to 63"),
    ],
)
def test_up_refuses_in_one_line_when_an_option_is_wrong(folder: Path, arguments: list[str], line: str) -> None:
    done = run("up", *arguments, state=folder / "state")
    assert done.returncode == 1
    assert done.stderr.startswith(line)
    assert done.stderr.count("\n") == 1
    assert not (folder / "state").exists()


def test_up_refuses_in_one_line_when_not_root(folder: Path) -> None:
    # Imported before the change of user: the interpreter may lie where only root can read.
    code = (
        "import os, sys, testbed.cli\n"
        "if os.geteuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "sys.exit(testbed.cli.main(['up', '--no-node']))"
    )
    folder.chmod(0o777)
    environment = {**os.environ, "RUNYARD_TESTBED_STATE": str(folder / "state")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT_ROOT, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 1
    assert "missing root (run as root, for example with sudo)" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (folder / "state").exists()


def test_up_refuses_in_one_line_when_a_program_is_missing(folder: Path) -> None:
    programs = folder / "bin"
    programs.mkdir()
    for program in ("ip", "nsenter", "mount", "unshare", "true"):
        found = subprocess.run(["which", program], capture_output=True, text=True, check=True).stdout.strip()
        (programs / program).symlink_to(found)
    done = run("up", state=folder / "state", PATH=str(programs))
    assert done.returncode == 1
    assert "missing the program `containerd` (apt-get install containerd)" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (folder / "state").exists()


@pytest.mark.skipif(not is_root, reason="a small disk to fill is mounted, which takes root")
def test_up_refuses_in_one_line_when_the_disk_is_full(folder: Path) -> None:
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], check=True)
    try:
        done = run("up", state=disk / "state")
        left = list(disk.iterdir())
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert done.returncode == 1
    assert f"missing 2 GiB free under {disk / 'state'} (free some space" in done.stderr
    assert done.stderr.count("\n") == 1
    assert left == []


@pytest.mark.skipif(not is_root, reason="without root the missing rights are named first")
def test_up_refuses_in_one_line_when_neither_binary_nor_go_is_there(folder: Path) -> None:
    path = os.pathsep.join(entry for entry in os.environ["PATH"].split(os.pathsep) if not (Path(entry) / "go").exists())
    done = run("up", "--no-node", state=folder / "state", PATH=path, RUNYARD_TESTBED_CACHE=str(folder / "cache"))
    assert done.returncode == 1
    assert "there is no go on PATH: install Go" in done.stderr.splitlines()[-1]
    assert not (folder / "state").exists()


def test_up_says_so_when_the_state_folder_is_too_long_for_sockets(folder: Path) -> None:
    done = run("up", state=folder / ("x" * 80))
    assert done.returncode == 1
    assert "too long for unix sockets" in done.stderr
    assert "set RUNYARD_TESTBED_STATE to a shorter one" in done.stderr


def test_commands_say_what_to_do_when_there_is_no_such_cluster(folder: Path) -> None:
    for arguments in (["kubeconfig"], ["kubectl", "get", "pods"], ["logs", "kubelet"], ["load-image", "x.tar"]):
        done = run(*arguments, state=folder)
        assert done.returncode == 1
        assert done.stderr == (
            "testbed: cluster dev is not running (none is running): start it with `python -m testbed up --name dev`\n"
        )
    assert run("down", state=folder).stdout == "no cluster dev (none is running)\n"
    assert run("status", state=folder).stdout == "no clusters\n"


def test_everything_behind_kubectl_is_kubectls_when_it_begins_with_a_flag(folder: Path) -> None:
    for arguments in (["kubectl", "-n", "kube-system", "get"], ["kubectl", "--name", "other", "-A"]):
        done = run(*arguments, state=folder)
        name = "other" if "other" in arguments else "dev"
        assert done.stderr.startswith(f"testbed: cluster {name} is not running")


def test_doctor_names_each_thing_and_its_remedy_when_some_are_missing(folder: Path) -> None:
    done = run("doctor", state=folder, PATH=str(folder))
    assert done.returncode == 1
    assert "MISSING the program `containerd`: apt-get install containerd\n" in done.stdout
    assert "MISSING Go 1.26.4 or newer: install it\n" in done.stdout


def test_help_lists_every_command_when_asked(folder: Path) -> None:
    done = run("--help", state=folder)
    assert done.returncode == 0
    for command in ("up", "down", "status", "kubeconfig", "kubectl", "load-image", "logs", "doctor"):
        assert f"\n    {command}" in done.stdout
