"""A machine on which neither root nor a user namespace can mount: a user namespace that forbids others."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runyard.procs.supervisor import system
from runyard.procs.supervisor.failures import Failed
from runyard.procs.supervisor.mounts import enter_mounts
from tests.unit.procs.lab import IS_ROOT

pytestmark = pytest.mark.skipif(not IS_ROOT, reason="only root can make such a machine")
TMPFS = {"target": "/mnt", "kind": "tmpfs", "sub_path": None, "size_bytes": None, "mode": None}


def run_where_mounts_are_forbidden(function: Callable[[], str]) -> str:
    """Run a function in a fork, as an unprivileged user who may make no user namespace; return what it returned."""
    (ready, is_ready), (mapped, is_mapped), (answer, writer) = os.pipe(), os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            system.unshare(system.CLONE_NEWUSER)
            os.write(is_ready, b"x")
            os.read(mapped, 1)
            Path("/proc/sys/user/max_user_namespaces").write_text("0")
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            os.write(writer, function().encode())
        finally:
            os._exit(0)
    os.read(ready, 1)
    for name in ("uid_map", "gid_map"):
        Path(f"/proc/{pid}/{name}").write_text("0 0 70000")
    os.write(is_mapped, b"x")
    os.waitpid(pid, 0)
    os.close(writer)
    with os.fdopen(answer) as file:
        text = file.read()
    for descriptor in (ready, is_ready, mapped, is_mapped):
        os.close(descriptor)
    return text


def try_plan(plan: dict[str, Any]) -> str:
    try:
        return f"{enter_mounts(plan, None)}, user {os.getuid()}"
    except Failed as failed:
        return f"{failed.code}: {failed}"


def test_mount_is_refused_with_the_reason_when_the_machine_forbids_it() -> None:
    plan = {"mounts": [TMPFS], "hidden": [], "reachable": []}
    assert run_where_mounts_are_forbidden(lambda: try_plan(plan)) == (
        "mount.impossible: cannot mount /mnt: only root or a user namespace can mount, and this machine allows neither"
        " (no user namespaces are left)"
    )


def test_command_runs_unhidden_and_says_so_when_the_machine_forbids_mounts() -> None:
    plan = {"mounts": [], "hidden": ["/mnt"], "reachable": []}
    assert run_where_mounts_are_forbidden(lambda: try_plan(plan)) == "no, user 65534"


def test_nothing_is_asked_of_the_machine_when_a_plan_has_no_mounts() -> None:
    plan = {"mounts": [], "hidden": [], "reachable": ["/root"]}
    assert run_where_mounts_are_forbidden(lambda: try_plan(plan)) == "None, user 65534"
