"""Room and environments with real supervisors: the interpreter may lie below a folder that only root may enter."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from runyard.engines.local.capacity.claim_journal import Claim
from runyard.engines.local.capacity.machine import Machine
from runyard.engines.local.capacity.room import Room, Share, Shortage
from runyard.engines.local.virtual_environments.environments import (
    choose_environment,
    find_uv,
    is_ready,
    list_setup_paths,
    plan_setup,
)
from runyard.engines.local.virtual_environments.interpreters import Interpreters
from runyard.procs import Command, Identity, Plan, State, end_leftovers, is_supervised, log_path, read_state, start
from tests.unit.engines.local.virtual_environments.test_environments import write_wheel

PROJECT_USER = 600_123_456
UV = find_uv()
IDENTITY = Identity(uid=PROJECT_USER, gid=PROJECT_USER) if os.geteuid() == 0 else None


def wait_until(is_done: Callable[[], bool], *, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not is_done():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)


def get_state(folder: Path) -> State:
    state = read_state(folder)
    assert state is not None
    return state


@pytest.fixture
def supervision(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "supervision"
    folder.mkdir()
    yield folder
    state = read_state(folder)
    if state is not None and state.supervisor_pid and is_supervised(folder):
        with suppress(ProcessLookupError):
            os.kill(state.supervisor_pid, signal.SIGKILL)
        wait_until(lambda: not is_supervised(folder))
        end_leftovers(folder)


@pytest.mark.skipif(UV is None, reason="uv is not installed")
def test_environment_is_built_and_used_when_a_supervisor_runs_the_step(tmp_path: Path, supervision: Path) -> None:
    assert UV is not None
    environments, cache, wheels = (tmp_path / name for name in ("environments", "cache", "wheels"))
    for path in (environments, cache):
        path.mkdir(mode=0o700)
        if IDENTITY is not None:
            os.chown(path, IDENTITY.uid, IDENTITY.gid)
    write_wheel(wheels, "libb")
    index = {"UV_OFFLINE": "1", "UV_FIND_LINKS": str(wheels)}
    interpreter = Interpreters().get(f"PYTHON3_{sys.version_info.minor}")
    environment = choose_environment(environments, interpreter, ["libb"])
    step = plan_setup(environment, uv=UV, cache_folder=cache, index_variables=index, identity=IDENTITY)
    code = "import os, sys, libb; print(libb.WORKS, sys.prefix, os.geteuid())"
    plan = Plan(
        steps=(step,),
        main=Command(name="main", argv=(str(environment.python), "-c", code), identity=IDENTITY),
        reachable=(*environment.reachable, *list_setup_paths(UV, cache, index)),
    )
    pid = start(supervision, plan, listeners=tmp_path / "listeners")
    wait_until(lambda: get_state(supervision).is_ended)
    os.waitpid(pid, 0)
    state = get_state(supervision)
    if state.failure is not None and state.failure.code == "mount.impossible":
        pytest.skip(state.failure.message)
    setup_log = log_path(supervision, "environment", 0).read_text()
    assert state.failure is None, (state.failure, setup_log)
    user = os.geteuid() if IDENTITY is None else IDENTITY.uid
    assert log_path(supervision, "main", 0).read_text() == f"True {environment.folder} {user}\n", setup_log
    assert is_ready(environment)
    assert environment.folder.stat().st_uid == user


def test_room_is_free_when_a_supervisor_is_killed(tmp_path: Path, supervision: Path) -> None:
    machine = Machine(hostname="h", architecture="amd64", cpu_millis=1000, memory_bytes=1 << 30, folder=tmp_path)
    room = Room(tmp_path / "room", machine, is_supervised=is_supervised).open()
    demand = {"cpu": 1000, "pods": 1}
    first = Claim(run_uid="a", sequence=1, demand=demand, supervision=supervision)
    second = Claim(run_uid="b", sequence=2, demand=demand, supervision=tmp_path / "never")
    assert isinstance(room.take(first), Share)
    plan = Plan(main=Command(name="main", argv=("/bin/sleep", "600")))
    pid = start(supervision, plan, listeners=tmp_path / "listeners")
    room.confirm("a")
    room.close()
    room = Room(tmp_path / "room", machine, is_supervised=is_supervised).open()
    assert isinstance(room.take(second), Shortage)
    wait_until(lambda: get_state(supervision).supervisor_pid is not None)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    wait_until(lambda: not is_supervised(supervision))  # a child between fork and exec shares the lock for a moment
    assert [share.run_uid for share in room.retry()] == ["b"]
    room.close()
    end_leftovers(supervision)
    assert get_state(supervision).is_ended
