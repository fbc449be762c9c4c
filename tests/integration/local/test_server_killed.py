"""Kill −9 of the server while the local engine executes runs: none is lost or doubled, every log byte is there once.

And of supervisors: such a run says so, and none is executed twice.
"""

import asyncio
import os
import random
import re
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.contract.engine.local_lab import iter_supervisors
from tests.integration.local.killable_core import BASE, KillableCore, Spawner, make_run, open_killable_core

RUNS = int(os.environ.get("RUNYARD_LOCAL_RUNS", "24"))
KILLS = int(os.environ.get("RUNYARD_LOCAL_KILLS", "6"))
SEED = int(os.environ.get("RUNYARD_LOCAL_SEED", random.randrange(10**6)))
"""`make chaos-local` sets them."""
SUBMITTERS = 3
LINES = 40

pytestmark = [pytest.mark.long, pytest.mark.timeout(240 + RUNS * 10)]

COUNTING = f"""
import os, sys, time

def main(number, pause, words):
    descriptor = os.open(f"{{words}}/executed", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(descriptor, f"{{number}}\\n".encode())
    for line in range({LINES}):
        print(f"{{number}} {{line}} " + "x" * (line * number % 97))
        if pause:
            time.sleep(pause)
    print("the last words", end="")
    return number * 2
"""
RETRY = re.compile("runyard: (GET|PUT) to the server failed, trying again: [^\\n]*\\n")
"""What the launcher itself says while no server answers."""


def expect_log(number: int) -> str:
    """All bytes that a run of `COUNTING` writes."""
    return "".join(f"{number} {line} {'x' * (line * number % 97)}\n" for line in range(LINES)) + "the last words"


async def test_every_run_ends_once_with_all_its_bytes_when_the_server_is_killed_again_and_again(
    spawner: Spawner, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print(f"\n{RUNS} runs, {KILLS} kills, seed {SEED}", end="", flush=True)  # noqa: T201 - it makes the test repeatable
    chance, begun = random.Random(SEED), time.monotonic()
    async with open_killable_core(spawner) as core:
        await endure(core, chance)
    with capsys.disabled():
        print(f": all COMPLETED once, all bytes there, {time.monotonic() - begun:.0f} s")  # noqa: T201 - the proof


async def endure(core: KillableCore, chance: random.Random) -> None:
    """Submit runs and kill the server meanwhile; then look at each run."""
    task = await core.make_function(COUNTING)
    (core.words / "executed").touch()
    (core.words / "executed").chmod(0o666)
    numbers = list(range(1, RUNS + 1))
    submitting = [asyncio.create_task(submit_all(core, task, numbers[own::SUBMITTERS])) for own in range(SUBMITTERS)]
    for kill in range(KILLS):
        # The last kills come when all were submitted and are being followed, or have ended unseen.
        await asyncio.sleep(chance.uniform(0.0, 1.5 if kill < KILLS // 2 else 4.0))
        core.kill()
        await asyncio.sleep(chance.uniform(0.0, 1.5))
        await core.start()
    await asyncio.gather(*submitting)
    for number in numbers:
        run = await core.wait_for(f"r{number}", "COMPLETED", seconds=60 + RUNS)
        assert run["status"]["results"] == {"output_0": number * 2}
        assert [end["exit_code"] for end in run["status"]["ends"]] == [0], run["status"]
        steps = [step["status"] for step in run["status"]["transitions"]]
        assert len(steps) == len(set(steps)), steps
        log = await core.read_log_text(f"r{number}")
        assert RETRY.sub("", log) == expect_log(number)
        (supervision,) = core.list_supervisions(f"r{number}")
        assert (supervision / "log" / "main.0").read_text() == log
    assert Counter((core.words / "executed").read_text().split()) == dict.fromkeys(map(str, numbers), 1)
    stored = (await core.client.get(f"{BASE}/runs", params={"size": 1000})).json()["content"]
    assert sorted(run["id"] for run in stored) == sorted(f"r{number}" for number in numbers)
    await core.wait_until_nothing_runs()
    # Whoever has news removes the sockets of servers that were killed.
    await core.wait_for(await submit_counting(core, task, 0), "COMPLETED")
    assert len(list((core.place / "listeners").iterdir())) == 1, "sockets of killed servers are left"


async def submit_counting(core: KillableCore, task: str, number: int, **spec: Any) -> str:
    """Submit a run that does not pause."""
    return await core.submit(task, parameters={"number": number, "pause": 0, "words": str(core.words)}, **spec)


async def submit_all(core: KillableCore, task: str, numbers: list[int]) -> None:
    """Submit runs while the server is killed: what was not acknowledged is sent again, under the same id."""
    for number in numbers:
        pause = (0.0, 0.05, 0.1)[number % 3]
        parameters = {"number": number, "pause": pause, "words": str(core.words)}
        body = make_run(task, run_id=f"r{number}", parameters=parameters)
        while True:
            try:
                answer = await core.client.post(f"{BASE}/runs", json=body)
            except httpx2.TransportError:
                await asyncio.sleep(0.1)
                continue
            # 409: the one before was stored, and its answer was lost with the server.
            assert answer.status_code in (200, 409), answer.text
            break
        await asyncio.sleep(0.1)


async def test_each_run_completes_or_says_that_it_was_lost_when_supervisors_and_the_server_are_killed(
    spawner: Spawner, capsys: pytest.CaptureFixture[str]
) -> None:
    chance, numbers = random.Random(SEED), list(range(1, RUNS // 2 + 1))
    async with open_killable_core(spawner) as core:
        task = await core.make_function(COUNTING)
        (core.words / "executed").touch()
        (core.words / "executed").chmod(0o666)
        submitting = asyncio.create_task(submit_all(core, task, numbers))
        victims = 0
        for _ in range(KILLS // 2):
            for _ in range(4):
                await asyncio.sleep(chance.uniform(0.0, 0.5))
                victims += kill_one(core, chance)
            core.kill()
            victims += kill_one(core, chance)
            await core.start()
        await submitting
        lost = [number for number in numbers if await is_lost(core, number)]
        executed = Counter((core.words / "executed").read_text().split())
        assert executed.total() == len(executed) >= len(numbers) - len(lost)
        await core.wait_until_nothing_runs()
        whole = {"cpu": str(os.cpu_count()), "mem": "64Mi"}
        await core.wait_for(await submit_counting(core, task, 0, resources=whole), "COMPLETED")
    with capsys.disabled():
        print(f"\n{len(numbers)} runs, {victims} supervisors killed, {len(lost)} runs lost, seed {SEED}")  # noqa: T201 - proof


def kill_one(core: KillableCore, chance: random.Random) -> int:
    """Kill a supervisor, if there is one; returns how many were killed."""
    found = sorted(iter_supervisors(core.place))
    # A child that has not become its command yet looks like its supervisor.
    found = [pid for pid in found if find_parent(pid) not in found]
    if not found:
        return 0
    with suppress(ProcessLookupError):
        os.kill(chance.choice(found), signal.SIGKILL)
    return 1


def find_parent(pid: int) -> int | None:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return None


async def is_lost(core: KillableCore, number: int) -> bool:
    """Whether a run was lost; it has completed otherwise. Its log has what it wrote until then."""
    run = await core.wait_for(f"r{number}", "COMPLETED", "ERROR", seconds=60 + RUNS)
    log = RETRY.sub("", await core.read_log_text(f"r{number}"))
    if run["status"]["state"] == "COMPLETED":
        assert log == expect_log(number)
        assert run["status"]["results"] == {"output_0": number * 2}
        return False
    assert run["status"]["reason"] == "supervisor.lost", run["status"]
    assert expect_log(number).startswith(log)
    return True
