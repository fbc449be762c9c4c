"""The program that a supervisor starts for a container, with a program that stands for the runtime."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runyard.engines.local.containers import container_process

_RUNTIME = """#!/bin/sh
echo "$@" >> "$TRACE"
case "$1 $2" in
  "container inspect") test -n "$INSPECTION" && echo "$INSPECTION";;
  "image inspect") test "$3" = "$IMAGE";;
  "pull "*) echo "pulled with $HTTPS_PROXY"; test "$2" != missing:1;;
esac
"""


@pytest.fixture
def handle(tmp_path: Path) -> dict[str, Any]:
    program = tmp_path / "runtime"
    program.write_text(_RUNTIME)
    program.chmod(0o755)
    return {
        "runtime": [str(program)],
        "usual": str(program),
        "env": {"TRACE": str(tmp_path / "trace"), "PATH": "/usr/bin:/bin"},
        "name": "c1",
        "folder": str(tmp_path / "memory"),
        "has_cgroup": False,
        "copies_images": False,
        "remove_options": ["--volumes"],
        "memory_bytes": None,
        "images": ["docker.io/library/a:1", "a:1"],
        "pull_policy": "IfNotPresent",
    }


def _call(action: str, handle: dict[str, Any], *rest: str, **env: str) -> "subprocess.CompletedProcess[str]":
    handle["env"] |= env
    argv = [sys.executable, "-S", "-I", container_process.__file__, action, json.dumps(handle), *rest]
    return subprocess.run(argv, env=handle["env"], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("inspection", "expected"),
    [
        ("3 false exited", {"exit_code": 3, "oom": False, "peak_bytes": None}),
        ("0 false exited", {"exit_code": 0, "oom": False, "peak_bytes": None}),
        ("143 false exited", {"exit_code": 143, "oom": False, "peak_bytes": None}),
        ("137 false exited", {"signal": 9, "oom": False, "peak_bytes": None}),
        ("139 false exited", {"signal": 11, "oom": False, "peak_bytes": None}),
        ("137 true exited", {"signal": 9, "oom": True, "peak_bytes": None}),
        ("0 true exited", {"signal": 9, "oom": True, "peak_bytes": None}),
        ("0 false running", {"exit_code": None, "oom": False, "peak_bytes": None}),
        ("0 false created", {"exit_code": None, "oom": False, "peak_bytes": None}),
        ("", {"exit_code": None, "oom": False, "peak_bytes": None}),
    ],
)
def test_end_is_told_when_a_container_is_inspected(
    handle: dict[str, Any], inspection: str, expected: dict[str, Any]
) -> None:
    assert json.loads(_call("inspect", handle, INSPECTION=inspection).stdout) == expected


def test_out_of_memory_is_told_when_conmon_noticed_it(handle: dict[str, Any]) -> None:
    folder = Path(handle["folder"])
    folder.mkdir()
    (folder / "oom").touch()
    told = json.loads(_call("inspect", handle, INSPECTION="0 false exited").stdout)
    assert told == {"signal": 9, "oom": True, "peak_bytes": None}


_LOOK_FOR_BOTH = ["image inspect docker.io/library/a:1", "image inspect a:1"]


@pytest.mark.parametrize(
    ("policy", "image", "calls", "code"),
    [
        ("IfNotPresent", "docker.io/library/a:1", _LOOK_FOR_BOTH[:1], 0),
        ("IfNotPresent", "a:1", _LOOK_FOR_BOTH, 0),
        ("IfNotPresent", "", _LOOK_FOR_BOTH, 0),
        ("Never", "", _LOOK_FOR_BOTH, 1),
        ("Always", "a:1", [], 0),
    ],
)
def test_image_is_pulled_only_when_its_policy_says_so(
    handle: dict[str, Any], tmp_path: Path, policy: str, image: str, calls: list[str], code: int
) -> None:
    handle["pull_policy"] = policy
    done = _call("image", handle, IMAGE=image, HTTPS_PROXY="http://user:pass@proxy")
    assert done.returncode == code
    is_pulled = policy == "Always" or (policy == "IfNotPresent" and not image)
    expected = [*calls, "pull docker.io/library/a:1"] if is_pulled else calls
    assert (tmp_path / "trace").read_text().splitlines() == expected
    assert ("pulled with http://user:pass@proxy" in done.stdout) == is_pulled


def test_runtimes_code_is_told_when_a_pull_fails(handle: dict[str, Any]) -> None:
    handle["images"] = ["missing:1"]
    assert _call("image", handle).returncode != 0


def test_volume_stays_when_a_folder_that_should_be_mounted_holds_files(handle: dict[str, Any]) -> None:
    """If unmounting failed, a recursive removal would delete the volume."""
    kept = Path(handle["folder"]) / "bind-0" / "data"
    kept.parent.mkdir(parents=True)
    kept.write_text("of a volume")
    secret = Path(handle["folder"]) / "files" / "0" / "secret"
    secret.parent.mkdir(parents=True)
    secret.write_text("s")
    _call("cleanup", handle)
    assert kept.read_text() == "of a volume"
    assert not secret.exists()


def test_run_is_ended_with_the_cause_when_a_port_of_the_machine_is_taken(handle: dict[str, Any]) -> None:
    order = {"has_host_ports": True, "files": [], "binds": []}
    argv = [sys.executable, "-S", "-I", container_process.__file__, "run", json.dumps(handle), "8080=40001"]
    done = subprocess.run(argv, input=json.dumps(order), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == ("port 8080 of this machine is taken, and the container runtime cannot publish another one\n")
