"""Kill −9 of the server while the local engine executes runs: none is lost or doubled, every log byte is there once."""

import asyncio
import os
import random
import re
import time
from collections import Counter

import httpx2
import pytest

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
    assert len(list((core.place / "listeners").iterdir())) == 1, "sockets of killed servers are left"


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
