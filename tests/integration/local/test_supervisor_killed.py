"""Kill −9 of supervisors, and of everything at once: runs are lost with a cause, and nothing of them is left."""

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from runyard.procs import State, read_state
from tests.contract.engine.local_lab import iter_supervisors
from tests.integration.local.killable_core import SMALL, KillableCore, Spawner, open_killable_core, wait_until

LOST = "the supervisor was killed; everything it had started was ended"
STUBBORN = """
import os, signal, sys, time

def leave(number):
    # Twice forked and in a session of its own, without variables, and deaf to SIGTERM.
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.execve("/bin/sleep", ["sleep", "4242" + number], {})
        os._exit(0)
    os.wait()

def main(number):
    leave(number)
    print("left", flush=True)
    time.sleep(600)
"""
SERVING = """
def main(x=1):
    return x
"""


@pytest.fixture
async def core(spawner: Spawner) -> AsyncIterator[KillableCore]:
    """A server of the test's own."""
    async with open_killable_core(spawner) as running:
        yield running


def iter_sleepers(number: str) -> Iterator[int]:
    """The processes that `STUBBORN` let go."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (path / "cmdline").read_bytes() == b"sleep\x004242" + number.encode() + b"\0":
                yield int(path.name)


async def start_stubborn(core: KillableCore, number: str, **spec: Any) -> str:
    """A run that has let a process go."""
    run_id = await core.submit(await core.make_function(STUBBORN), parameters={"number": number}, **spec)
    await core.wait_for(run_id, "RUNNING")
    await core.wait_until_said(run_id, "left")

    async def has_sleeper() -> bool:
        return len(list(iter_sleepers(number))) == 1

    await wait_until(has_sleeper, what=core.list_processes)
    return run_id


async def wait_until_clear(core: KillableCore, number: str) -> None:
    await core.wait_until_nothing_runs()
    assert list(iter_sleepers(number)) == []


def get_state(core: KillableCore, run_id: str) -> State:
    state = read_state(core.list_supervisions(run_id)[-1])
    assert state is not None
    return state


def kill_supervisor(core: KillableCore, run_id: str) -> State:
    """Kill the supervisor of a run; what it had recorded."""
    state = get_state(core, run_id)
    assert state.supervisor_pid is not None
    os.kill(state.supervisor_pid, signal.SIGKILL)
    return state


def check_loss(run: dict[str, Any], state: State) -> None:
    """The run says why it ended, and its cgroup is gone."""
    status = run["status"]
    assert (status["reason"], status["message"]) == ("supervisor.lost", LOST)
    assert "service" not in status
    assert state.cgroup is None or not Path(state.cgroup).exists()


async def test_run_is_lost_with_its_whole_tree_when_its_supervisor_is_killed(core: KillableCore) -> None:
    run_id = await start_stubborn(core, "1")
    state = kill_supervisor(core, run_id)
    check_loss(await core.wait_for(run_id, "ERROR"), state)
    await wait_until_clear(core, "1")
    assert await core.read_log(run_id) == ["left"]


async def test_run_is_lost_with_its_whole_tree_when_supervisor_and_server_are_killed(core: KillableCore) -> None:
    run_id = await start_stubborn(core, "2")
    core.kill()
    state = kill_supervisor(core, run_id)
    await core.start()
    check_loss(await core.wait_for(run_id, "ERROR"), state)
    await wait_until_clear(core, "2")
    assert await core.read_log(run_id) == ["left"]


async def test_runs_and_services_are_lost_and_their_room_is_free_when_everything_is_killed(core: KillableCore) -> None:
    """As after a restart of the machine: nothing of a run can have survived it."""
    whole = {"cpu": str(os.cpu_count()), "mem": "64Mi"}
    service = await core.submit(await core.make_function(SERVING, name="s", action="serve"), resources=SMALL)
    await core.wait_for(service, "RUNNING")
    job = await start_stubborn(core, "3", resources=SMALL)
    sequel = await core.submit(await core.make_function(SERVING, name="j"), resources=whole)

    async def is_waiting() -> bool:
        return bool((await core.get_run(sequel))["status"].get("reason") == "resources.waiting")

    await wait_until(is_waiting, what=lambda: f"{sequel} does not wait for room")
    states = [get_state(core, run_id) for run_id in (service, job)]
    core.kill()
    kill_everything(core, "3")
    await core.start()
    for run_id, state in zip((service, job), states, strict=True):
        check_loss(await core.wait_for(run_id, "ERROR"), state)
    # It has the room of those, and needs the whole machine.
    await core.wait_for(sequel, "COMPLETED")
    await wait_until_clear(core, "3")


def kill_everything(core: KillableCore, number: str) -> None:
    """Supervisors, what they supervise, and what that let go."""
    for _ in range(100):
        pids = {*iter_supervisors(core.place), *core.list_processes(), *iter_sleepers(number)}
        if not pids:
            return
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    raise AssertionError(core.list_processes())
