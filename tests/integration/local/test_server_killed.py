"""Kill −9 of the server while the local engine executes runs: none is lost, none runs twice, every log byte is there."""

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest

from tests.core_process import make_client
from tests.integration.local.killable_core import BASE, ENDED, LocalCore, make_run, open_local_core, wait_until

RUNS = int(os.environ.get("RUNYARD_LOCAL_RUNS", "24"))
KILLS = int(os.environ.get("RUNYARD_LOCAL_KILLS", "6"))
SEED = int(os.environ.get("RUNYARD_LOCAL_SEED", random.randrange(10**6)))
"""`make chaos-local` sets them."""
SUBMITTERS = 3
LINES = 40

pytestmark = [pytest.mark.long, pytest.mark.timeout(240 + RUNS * 6)]

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
WAITING = """
import os, time

def main(words, name="word"):
    print("waiting")
    while not os.path.exists(f"{words}/{name}"):
        time.sleep(0.05)
    print("heard")
    return "heard"
"""
SERVING = """
import os

def main(x=1):
    return {"pid": os.getpid(), "x": x}
"""


@pytest.fixture
async def core() -> AsyncIterator[LocalCore]:
    """A server of the test's own."""
    async with open_local_core() as running:
        yield running


def expect_log(number: int) -> str:
    """All bytes that a run of `COUNTING` writes."""
    return "".join(f"{number} {line} {'x' * (line * number % 97)}\n" for line in range(LINES)) + "the last words"


async def test_every_run_ends_once_with_all_its_bytes_when_the_server_is_killed_again_and_again(
    core: LocalCore, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print(f"\n{RUNS} runs, {KILLS} kills, seed {SEED}", end="", flush=True)  # noqa: T201 - it makes the test repeatable
    chance, begun = random.Random(SEED), time.monotonic()
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
        assert await core.read_log_text(f"r{number}") == expect_log(number)
    assert Counter((core.words / "executed").read_text().split()) == dict.fromkeys(map(str, numbers), 1)
    stored = (await core.client.get(f"{BASE}/runs", params={"size": 1000})).json()["content"]
    assert sorted(run["id"] for run in stored) == sorted(f"r{number}" for number in numbers)
    for run in stored:
        assert len(core.list_supervisions(run)) == 1, run["id"]
    await wait_until(lambda: has_no_process(core), what=core.list_processes)
    assert len(list((core.place / "listeners").iterdir())) == 1, "sockets of killed servers are left"
    with capsys.disabled():
        print(f": all COMPLETED once, all bytes there, {time.monotonic() - begun:.0f} s")  # noqa: T201 - the proof


async def submit_all(core: LocalCore, task: str, numbers: list[int]) -> None:
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


async def has_no_process(core: LocalCore) -> bool:
    return core.list_processes() == {}


async def wait_for_words(core: LocalCore, run_id: str, words: str) -> None:
    """Until a run has written that to the log that its supervisor keeps; no server is needed."""
    supervision = core.list_supervisions({"id": run_id})[0]

    async def has_said() -> bool:
        return words in (supervision / "log" / "main.0").read_text()

    await wait_until(has_said, what=lambda: (supervision / "log" / "main.0").read_text())


async def start_waiting(core: LocalCore, **parameters: str) -> str:
    """A run that has begun, and waits for a word."""
    task = await core.make_function(WAITING)
    run_id = await core.submit(task, parameters={"words": str(core.words), **parameters})
    await core.wait_for(run_id, "RUNNING")
    await wait_for_words(core, run_id, "waiting")
    return run_id


async def test_result_arrives_when_the_run_ends_while_the_server_is_away(core: LocalCore) -> None:
    run_id = await start_waiting(core)
    core.kill()
    (core.words / "word").touch()
    await wait_for_words(core, run_id, "heard")
    await asyncio.sleep(1.5)  # the launcher has tried to report by now
    await core.start()
    run = await core.wait_for(run_id, "COMPLETED")
    assert run["status"]["results"] == {"output_0": "heard"}
    assert await core.read_log(run_id) == ["waiting", "heard"]


async def test_end_is_known_when_a_run_without_a_launcher_ends_while_the_server_is_away(core: LocalCore) -> None:
    task = await core.make_function("def main(): pass")
    script = f"echo begun; while [ ! -e {core.words}/word ]; do sleep 0.05; done; echo ended; exit 3"
    function = {"command": "sh", "args": ["-c", script]}
    run_id = await core.submit(task, **function)
    await core.wait_for(run_id, "RUNNING")
    await wait_for_words(core, run_id, "begun")
    core.kill()
    (core.words / "word").touch()
    await wait_until(lambda: has_no_process(core), what=core.list_processes)
    await core.start()
    run = await core.wait_for(run_id, "ERROR")
    assert [(end["exit_code"], end["instance"]) for end in run["status"]["ends"]] == [(3, 0)]
    assert run["status"]["message"] == "the process ended with exit code 3"
    assert await core.read_log(run_id) == ["begun", "ended"]


async def test_stop_is_obeyed_when_the_server_is_killed_as_soon_as_it_acknowledged_it(core: LocalCore) -> None:
    run_id = await start_waiting(core)
    await core.post(f"{BASE}/runs/{run_id}/stop", {})
    core.kill()
    await core.start()
    await core.wait_for(run_id, "STOPPED")
    await wait_until(lambda: has_no_process(core), what=core.list_processes)


async def test_run_is_gone_when_the_server_is_killed_as_soon_as_it_acknowledged_the_deletion(core: LocalCore) -> None:
    run_id = await start_waiting(core)
    folder = core.get_run_folder({"id": run_id})
    assert (await core.client.delete(f"{BASE}/runs/{run_id}")).status_code == 200
    core.kill()
    await core.start()

    async def is_gone() -> bool:
        return (await core.client.get(f"{BASE}/runs/{run_id}")).status_code == 404 and not folder.exists()

    await wait_until(is_gone, what=lambda: f"{folder} is there: {folder.exists()}")
    await wait_until(lambda: has_no_process(core), what=core.list_processes)


async def test_service_keeps_its_url_and_process_when_the_server_is_killed(core: LocalCore) -> None:
    task = await core.make_function(SERVING, action="serve")
    run_id = await core.submit(task)
    run = await core.wait_for(run_id, "RUNNING")
    service = run["status"]["service"]
    async with make_client(f"http://{service['url']}") as user:
        before = (await user.post("/", json={"x": 2})).json()
        core.kill()
        assert (await user.post("/", json={"x": 3})).json() == {**before, "x": 3}
        await core.start()
        run = await core.wait_for(run_id, "RUNNING")
        assert run["status"]["service"] == service
        assert (await user.post("/", json={"x": 4})).json() == {**before, "x": 4}
    assert len(core.list_supervisions(run)) == 1
    await core.post(f"{BASE}/runs/{run_id}/stop", {})
    await core.wait_for(run_id, "STOPPED")
    await wait_until(lambda: has_no_process(core), what=core.list_processes)
