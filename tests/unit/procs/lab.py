"""Real supervisors for tests: started, waited for, and never left behind."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runyard.procs import (
    Command,
    Identity,
    Plan,
    State,
    end_leftovers,
    is_supervised,
    log_path,
    read_state,
    request_stop,
    start,
)

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
STRANGER = Identity(uid=600_100_777, gid=600_100_777)
"""An unprivileged user, for tests that run as root."""
IS_ROOT = os.geteuid() == 0
ROOT = Path(__file__).parents[3]


def shell(script: str, *, name: str = "main", **fields: Any) -> Command:
    """A command of the shell."""
    env = {"PATH": PATH, **fields.pop("env", {})}
    return Command(name=name, argv=("sh", "-c", script), env=env, **fields)


def plan_tests(*arguments: str, work: Path, user: Identity = STRANGER) -> Plan:
    """The plan of a run of pytest by another user, who writes below `work` only. Needs root."""
    work.mkdir()
    os.chown(work, user.uid, user.gid)
    options = ("-q", "-p", "no:cacheprovider", "--basetemp", f"{work}/tmp")
    main = Command(
        name="main",
        argv=(sys.executable, "-m", "pytest", *options, *arguments),
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(work),
            "TMPDIR": str(work),
            "PYTHONDONTWRITEBYTECODE": "1",
            "RUNYARD_TESTBED_STATE": "/tmp/no-testbed",
        },
        cwd=str(ROOT),
        identity=user,
    )
    needed = (sys.prefix, sys.base_prefix, os.path.realpath(sys.executable), str(ROOT), str(work))
    return Plan(main=main, reachable=needed, grace_seconds=5)


class Lab:
    """A folder of supervisions; `close` ends every one of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.listeners = folder / "listeners"
        self._pids: dict[Path, int] = {}

    def start(self, plan: Plan, *, name: str = "one") -> Path:
        """Start a supervision in a folder of its own."""
        folder = self.folder / name
        folder.mkdir(mode=0o700)
        self._pids[folder] = start(folder, plan, listeners=self.listeners)
        return folder

    def pid(self, folder: Path) -> int:
        """The pid of the supervisor."""
        return self._pids[folder]

    def run(self, plan: Plan, *, name: str = "one", seconds: float = 60) -> tuple[Path, State]:
        """Start a supervision and wait for its end."""
        folder = self.start(plan, name=name)
        return folder, self.wait(folder, seconds=seconds)

    def wait(
        self, folder: Path, until: Callable[[State], bool] = lambda state: state.is_ended, *, seconds: float = 60
    ) -> State:
        """Wait for a state; fails with the last one."""
        deadline = time.monotonic() + seconds
        while True:
            # Asked before the state is read: a supervisor that has exited since has written its last one.
            is_alive = is_supervised(folder)
            state = read_state(folder)
            assert state is not None
            if until(state):
                return state
            assert time.monotonic() < deadline, state
            assert is_alive, (state, (folder / "errors").read_text())
            time.sleep(0.01)

    def reap(self, folder: Path, *, seconds: float = 60) -> None:
        """Wait until the supervisor has exited."""
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(ChildProcessError):
                pid, _ = os.waitpid(self._pids[folder], os.WNOHANG)
                if pid == 0 and time.monotonic() < deadline:
                    time.sleep(0.01)
                    continue
                assert pid != 0, "the supervisor does not exit"
            return

    def close(self) -> None:
        """End everything that is left."""
        for folder in self._pids:
            request_stop(folder, grace_seconds=0)
        for folder in self._pids:
            self.reap(folder)
            end_leftovers(folder)


def read_log(folder: Path, command: str = "main", instance: int = 0) -> str:
    """The output of an instance."""
    return log_path(folder, command, instance).read_text(errors="replace")


def wait_for(condition: Callable[[], bool], *, seconds: float = 60) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)


def can_mount() -> bool:
    """Whether this user can mount something, in namespaces of its own."""
    flags = "-m" if IS_ROOT else "-Urm"
    unshare = shutil.which("unshare")
    return unshare is not None and subprocess.run([unshare, flags, "true"], capture_output=True).returncode == 0
