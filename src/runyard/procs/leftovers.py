"""Clears up after a supervisor that was killed, or that a restart of the machine ended."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from runyard.procs.state import read_raw_state
from runyard.procs.supervision import ERRORS_FILE, PROGRAM, take_lock, write_state
from runyard.procs.supervisor.cgroups import (
    NAME_PREFIX,
    kill_cgroup,
    list_cgroup_processes,
    remove_cgroup,
)
from runyard.procs.supervisor.failures import SUPERVISOR_LOST
from runyard.procs.supervisor.process_tree import (
    find_start_time,
    list_marked,
    read_boot_id,
    read_kernel_file,
    send_signals,
)

LONGEST_KILL_SECONDS = 10.0
"""How long processes are killed again and again; one that hangs in the kernel is left to it."""
LONGEST_CLEANUP_SECONDS = 60.0
"""How long the cleanup hook may take."""
LARGEST_ERRORS_BYTES = 500
"""How much of what the supervisor's Python said is in the message of the failure, from its end."""


def end_leftovers(folder: Path) -> bool:
    """Kill what is left of the process tree, run the cleanup hook, and write phase `ended`: failure `supervisor.lost`.

    Blocks for seconds at worst: call it in a thread. False if a supervisor lives: nothing is done. Idempotent; a state
    that is `ended` already stays as it is, and of a folder that is gone nothing is left. Raises OSError if the state
    cannot be written: call it again.
    """
    try:
        lock = take_lock(folder)
    except FileNotFoundError:
        return True
    if lock is None:
        return False
    try:
        state = read_raw_state(folder)
        if state is None or state.get("phase") == "ended":
            return True
        if _is_copy(folder, state):
            message = "the folder is a copy: its supervisor works elsewhere"
        else:
            message = _explain(folder, state)
            _kill(state)
            _run_cleanup(state)
        write_state(folder, _close(state, message))
    finally:
        os.close(lock)
    return True


def _is_copy(folder: Path, state: dict[str, Any]) -> bool:
    """Whether the supervisor lives and works in another folder, of which this one is a copy: a restored backup."""
    supervisor = state.get("supervisor") or {}
    pid, start_time = supervisor.get("pid"), supervisor.get("start_time")
    if not isinstance(pid, int) or state.get("boot_id") != read_boot_id() or find_start_time(pid) != start_time:
        return False
    arguments = read_kernel_file(f"/proc/{pid}/cmdline").split(b"\0")
    return os.fsencode(PROGRAM) in arguments and os.fsencode(folder.absolute()) not in arguments


def _explain(folder: Path, state: dict[str, Any]) -> str:
    if state.get("boot_id") not in (None, read_boot_id()):
        return "the machine was restarted"
    with contextlib.suppress(OSError), (folder / ERRORS_FILE).open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LARGEST_ERRORS_BYTES))
        errors = file.read(LARGEST_ERRORS_BYTES).decode(errors="replace").strip()
        if errors:
            return f"the supervisor failed: {errors.splitlines()[-1]}"
    if state.get("supervisor") is None:
        return "the supervisor was killed before it had started anything"
    return "the supervisor was killed; everything it had started was ended"


def _kill(state: dict[str, Any]) -> None:
    """Kill the processes of its cgroups, and every process that carries its mark."""
    mark = str(state.get("mark"))
    paths = [path for path in state.get("cgroups") or () if Path(path).name.startswith(f"{NAME_PREFIX}{mark}-")]
    deadline = time.monotonic() + LONGEST_KILL_SECONDS
    while time.monotonic() < deadline:
        for path in paths:
            kill_cgroup(path)
        processes = {**list_cgroup_processes(paths), **list_marked(mark)}
        remaining = [path for path in paths if not remove_cgroup(path)]
        if not processes and not remaining:
            return
        send_signals(processes, signal.SIGKILL)
        time.sleep(0.02)


def _run_cleanup(state: dict[str, Any]) -> None:
    hook = state.get("cleanup")
    if not hook:
        return
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(
            hook["argv"],
            env=hook["env"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=LONGEST_CLEANUP_SECONDS,
            check=False,
        )


def _close(state: dict[str, Any], message: str) -> dict[str, Any]:
    now = time.time()
    instances = [{**each, "ended_at": each.get("ended_at") or now} for each in state.get("instances") or ()]
    return {
        **state,
        "version": state["version"] + 1,
        "phase": "ended",
        "message": None,
        "is_ready": False,
        "cgroup": None,
        "cgroups": [],
        "instances": instances,
        "failure": {"code": SUPERVISOR_LOST, "message": message},
    }
