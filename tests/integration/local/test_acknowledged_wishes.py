"""One kill −9 of the server with runs in every situation: each goes on, and what was acknowledged is done."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.core_process import make_client
from tests.integration.local.killable_core import BASE, KillableCore, Spawner, open_killable_core, wait_until

WAITING = """
import os, time

def main(words, name):
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


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of the runs after the server came back."""

    reported: dict[str, Any]
    reported_log: list[str]
    ended: dict[str, Any]
    ended_log: list[str]
    stopped: dict[str, Any]
    service_before: dict[str, Any]
    service_after: dict[str, Any]
    service_answers: list[dict[str, Any]]
    service_supervisions: list[Path]


@pytest.fixture(scope="module")
def seen(spawner: Spawner) -> Seen:
    """Plays the kill once for all tests."""
    return asyncio.run(play(spawner))


async def play(spawner: Spawner) -> Seen:
    async with open_killable_core(spawner) as core:
        task = await core.make_function(WAITING)
        words = {"words": str(core.words)}
        reported, stopped, deleted = [
            await core.submit(task, parameters={**words, "name": name}) for name in ("word", "never", "never")
        ]
        script = f"echo waiting; while [ ! -e {core.words}/word ]; do sleep 0.05; done; echo ended; exit 3"
        ended = await core.submit(task, command="sh", args=["-c", script])
        service = await core.submit(await core.make_function(SERVING, name="s", action="serve"))
        for run_id in (reported, stopped, deleted, ended):
            await core.wait_for(run_id, "RUNNING")
            await core.wait_until_said(run_id, "waiting")
        before = (await core.wait_for(service, "RUNNING"))["status"]["service"]
        anchor = core.get_run_folder(deleted)
        async with make_client(f"http://{before['url']}") as user:
            answers = [(await user.post("/", json={"x": 1})).json()]
            await core.post(f"{BASE}/runs/{stopped}/stop", {})
            assert (await core.client.delete(f"{BASE}/runs/{deleted}")).status_code == 200
            core.kill()
            (core.words / "word").touch()
            answers.append((await user.post("/", json={"x": 2})).json())
            await core.wait_until_said(reported, "heard")
            await core.wait_until_said(ended, "ended")
            await asyncio.sleep(1.5)  # the launcher has tried to report by now
            await core.start()
            after = (await core.wait_for(service, "RUNNING"))["status"]["service"]
            answers.append((await user.post("/", json={"x": 3})).json())
        found = Seen(
            reported=await core.wait_for(reported, "COMPLETED"),
            reported_log=await core.read_log(reported),
            ended=await core.wait_for(ended, "ERROR"),
            ended_log=await core.read_log(ended),
            stopped=await core.wait_for(stopped, "STOPPED"),
            service_before=before,
            service_after=after,
            service_answers=answers,
            service_supervisions=core.list_supervisions(service),
        )
        await wait_until_gone(core, deleted, anchor)
        await core.post(f"{BASE}/runs/{service}/stop", {})
        await core.wait_for(service, "STOPPED")
        await core.wait_until_nothing_runs()
    return found


async def wait_until_gone(core: KillableCore, run_id: str, anchor: Path) -> None:
    async def is_gone() -> bool:
        is_forgotten = (await core.client.get(f"{BASE}/runs/{run_id}")).status_code == 404
        return is_forgotten and not has_folder(anchor)

    await wait_until(is_gone, what=lambda: f"folder is there: {has_folder(anchor)}")


def has_folder(anchor: Path) -> bool:
    return anchor.exists()


def test_result_arrives_when_it_was_reported_while_the_server_was_away(seen: Seen) -> None:
    assert seen.reported["status"]["results"] == {"output_0": "heard"}
    assert [line for line in seen.reported_log if not line.startswith("runyard: ")] == ["waiting", "heard"]


def test_exit_code_is_known_when_a_run_ended_while_the_server_was_away(seen: Seen) -> None:
    assert [(end["exit_code"], end["instance"]) for end in seen.ended["status"]["ends"]] == [(3, 0)]
    assert seen.ended["status"]["message"] == "the process ended with exit code 3"
    assert seen.ended_log == ["waiting", "ended"]


def test_run_is_stopped_when_the_server_was_killed_after_it_acknowledged_the_stop(seen: Seen) -> None:
    assert seen.stopped["status"]["state"] == "STOPPED"


def test_service_keeps_its_url_and_its_process_when_the_server_was_killed(seen: Seen) -> None:
    assert seen.service_after == seen.service_before
    pid = seen.service_answers[0]["pid"]
    assert seen.service_answers == [{"pid": pid, "x": 1}, {"pid": pid, "x": 2}, {"pid": pid, "x": 3}]
    assert len(seen.service_supervisions) == 1
