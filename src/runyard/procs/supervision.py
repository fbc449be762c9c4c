"""Starts supervisors, finds out whether they live, and asks them to stop. Nothing here waits for a command.

The folder of a supervision holds `lock`, `state.json`, `log/`, and after a request `stop`. A supervisor lives exactly
as long as somebody holds the lock. It is a lock of the open file description (OFD), which the supervisor inherits from
`start`: there is no moment in which it has been started and does not look alive, and no pid that may have been reused.
"""

import fcntl
import json
import os
import secrets
import signal
import struct
import sys
from pathlib import Path
from typing import Any

from runyard.procs.plan import Plan, encode_plan
from runyard.procs.state import LOG_FOLDER, STATE_FILE, read_state
from runyard.procs.supervisor.process_tree import send_signal

LOCK_FILE = "lock"
STOP_FILE = "stop"
ERRORS_FILE = "errors"
"""What Python says if the supervisor itself fails."""
PROGRAM = Path(__file__).parent / "supervisor" / "__main__.py"
_FLOCK = "hhqqi0q"
"""struct flock of Linux on 64 bits: type, whence, start, length, pid."""
_WHOLE_FILE = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
_PLAN_DESCRIPTOR, _LOCK_DESCRIPTOR = 3, 4


class AlreadySupervised(Exception):
    """The folder has a supervisor, or had one: a folder serves one supervision."""


def start(folder: Path, plan: Plan, *, listeners: Path) -> int:
    """Start a supervisor that outlives this process, and return its pid. Takes a few milliseconds.

    `folder` must exist and belong to this supervision alone; raises `AlreadySupervised` if it was used before,
    `InvalidPlan`, and OSError if the supervisor cannot be started. When this returns, the folder is supervised and has
    a state, in which failures of the commands appear.
    `listeners` is the folder of the sockets that hear of changes (`Listener`); it may be empty or missing.
    The pid is that of a child of this process: `Listener.watch` reaps it.
    """
    state = _first_state(plan)
    encoded = encode_plan(plan, state)
    lock = take_lock(folder)
    if lock is None:
        raise AlreadySupervised(f"{folder} has a supervisor")
    memory = os.memfd_create("plan", os.MFD_CLOEXEC)
    try:
        if (folder / STATE_FILE).exists():
            raise AlreadySupervised(f"{folder} was used by another supervision")
        (folder / LOG_FOLDER).mkdir(mode=0o700, exist_ok=True)
        write_state(folder, state)
        with os.fdopen(memory, "wb", closefd=False) as file:
            file.write(encoded)
        try:
            return _spawn(folder, listeners, memory=memory, lock=lock)
        except OSError:
            (folder / STATE_FILE).unlink()
            raise
    finally:
        os.close(memory)
        os.close(lock)


def is_supervised(folder: Path) -> bool:
    """Whether a supervisor lives. False also if the folder does not exist."""
    try:
        descriptor = os.open(folder / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _WHOLE_FILE)
        return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)
    finally:
        os.close(descriptor)


def request_stop(folder: Path, *, grace_seconds: float | None = None) -> bool:
    """Ask the supervisor to end everything with grace; False if none lives. Does not wait. Idempotent.

    `grace_seconds` replaces the plan's; a later request may shorten the grace that is running, never extend it.
    """
    if not is_supervised(folder):
        return False
    _replace(folder / STOP_FILE, b"" if grace_seconds is None else str(float(grace_seconds)).encode())
    # A supervisor that has not written its pid yet looks for the file after it has.
    state = read_state(folder)
    if state is not None and state.supervisor_pid is not None:
        # Continued too: without root, a command can stop (SIGSTOP) its own supervisor.
        for number in (signal.SIGTERM, signal.SIGCONT):
            send_signal(state.supervisor_pid, number, start_time=state.supervisor_start_time)
    return True


def write_state(folder: Path, state: dict[str, Any]) -> None:
    """Replace the state file atomically. Only for who holds the lock."""
    _replace(folder / STATE_FILE, json.dumps(state).encode())


def take_lock(folder: Path) -> int | None:
    """Return the descriptor that holds the lock until it is closed; None if a supervisor lives."""
    descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _WHOLE_FILE)
    except (BlockingIOError, PermissionError):
        os.close(descriptor)
        return None
    return descriptor


def _first_state(plan: Plan) -> dict[str, Any]:
    cleanup = {"argv": list(plan.hooks.cleanup), "env": dict(plan.hooks.env)} if plan.hooks.cleanup else None
    return {"version": 1, "phase": "setup", "mark": secrets.token_hex(16), "cleanup": cleanup, "instances": []}


def _spawn(folder: Path, listeners: Path, *, memory: int, lock: int) -> int:
    errors = os.open(folder / ERRORS_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    # The targets 3 and 4 may be the numbers of the sources: move the sources out of the way first.
    moved = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 10) for each in (memory, lock, errors)]
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-S", "-I", str(PROGRAM), str(folder.absolute()), str(listeners.absolute())],
            {"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, null, 0),
                (os.POSIX_SPAWN_DUP2, null, 1),
                (os.POSIX_SPAWN_DUP2, moved[2], 2),
                (os.POSIX_SPAWN_DUP2, moved[0], _PLAN_DESCRIPTOR),
                (os.POSIX_SPAWN_DUP2, moved[1], _LOCK_DESCRIPTOR),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGTERM],
        )
    finally:
        for each in (*moved, errors, null):
            os.close(each)


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
