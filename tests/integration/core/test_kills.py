"""Kill −9 of the server at random instants under a stream of writes: what it acknowledged is there. Counted."""

import asyncio
import json
import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from tests.core_process import START_SECONDS, make_client, make_environment
from tests.integration.core.conftest import Place, fill, make_run

KILLS = 100
SECONDS = float(os.environ.get("RUNYARD_KILL_SECONDS", "25"))
"""Fewer are killed where the machine is slow: to count them all, let it take its time."""
WRITERS = 4
_LISTENS = re.compile(r"^runyard listens on (\S+)$", re.MULTILINE)


@dataclass(slots=True)
class Acknowledged:
    """What the server said that it has, and what it was asked beside that."""

    runs: list[str] = field(default_factory=list)
    attempted: int = 0
    written: dict[int, int] = field(default_factory=dict)
    """The last number that each writer put into its function and heard of."""
    asked: dict[int, int] = field(default_factory=dict)


async def test_no_acknowledged_write_is_lost_when_the_server_is_killed(
    place: Place, engine: str, tell: Callable[[str], None]
) -> None:
    chance = random.Random(int(os.environ.get("RUNYARD_KILL_SEED", random.randrange(10**6))))
    seen = Acknowledged()
    kills, begun = 0, 0.0
    spawner = Spawner(place)
    await spawner.begin()
    try:
        while kills < KILLS and (not kills or time.monotonic() - begun < SECONDS):
            url = await spawner.start()
            begun = begun if kills else time.monotonic()
            async with make_client(url, timeout=20.0) as client:
                if not kills:
                    await fill(client)
                    await make_functions(client)
                await check_functions(client, seen)
                writers = [asyncio.create_task(write(client, number, seen)) for number in range(WRITERS)]
                await wait_for_runs(seen, len(seen.runs) + chance.randint(0, 8), writers)
                await asyncio.sleep(chance.uniform(0.0, 0.03))
                spawner.kill()
                await asyncio.gather(*writers)
            kills += 1
        url = await spawner.start()
        async with make_client(url) as client:
            await check_functions(client, seen)
            unheard = await check_runs(client, seen)
    finally:
        await spawner.end()
    tell(
        f"{engine}: server killed {kills} times, {len(seen.runs)} submits and {sum(seen.written.values())} PUTs "
        f"acknowledged, 0 lost, {unheard} submits stored but unheard"
    )
    assert kills >= 5
    assert len(seen.runs) > kills


async def wait_for_runs(seen: Acknowledged, number: int, writers: list[asyncio.Task[None]]) -> None:
    """Until so many were acknowledged, or a writer has failed."""
    while len(seen.runs) < number and not any(writer.done() for writer in writers):  # noqa: ASYNC110 - of a number
        await asyncio.sleep(0.001)


async def write(client: httpx2.AsyncClient, writer: int, seen: Acknowledged) -> None:
    """Submit and put in turn until the server is gone."""
    try:
        while True:
            seen.attempted += 1
            run_id = f"r{seen.attempted}"
            answer = await client.post("/api/v1/-/demo/runs", json=make_run("demo", run_id))
            assert answer.status_code == 200, answer.text
            seen.runs.append(run_id)
            number = seen.asked[writer] = seen.asked.get(writer, 0) + 1
            answer = await client.put(f"/api/v1/-/demo/functions/w{writer}", json=make_function(writer, number))
            assert answer.status_code == 200, answer.text
            seen.written[writer] = number
    except httpx2.TransportError:
        return


async def make_functions(client: httpx2.AsyncClient) -> None:
    """One for each writer."""
    for writer in range(WRITERS):
        answer = await client.post("/api/v1/-/demo/functions", json=make_function(writer, 0))
        assert answer.status_code == 200, answer.text


def make_function(writer: int, number: int) -> dict[str, Any]:
    """The function of a writer with a number in it."""
    spec = {"image": "busybox:1.36"}
    one = f"w{writer}"
    return {"kind": "container", "id": one, "name": one, "metadata": {"description": str(number)}, "spec": spec}


async def check_functions(client: httpx2.AsyncClient, seen: Acknowledged) -> None:
    """Each has the number that was acknowledged last, or the one that was asked for and not heard of."""
    for writer in range(WRITERS):
        stored = (await client.get(f"/api/v1/-/demo/functions/w{writer}")).json()
        number = int(stored["metadata"]["description"])
        assert seen.written.get(writer, 0) <= number <= seen.asked.get(writer, 0)
        # It was kept, if it was; the next goes on from there.
        seen.written[writer] = seen.asked[writer] = number


async def check_runs(client: httpx2.AsyncClient, seen: Acknowledged) -> int:
    """All are there, whole, each audited once; how many there are that nobody heard of."""
    stored: dict[str, Any] = {}
    for page in range(10_000):
        content = (await client.get("/api/v1/-/demo/runs", params={"page": page, "size": 500})).json()["content"]
        stored |= {run["id"]: run for run in content}
        if len(content) < 500:
            break
    assert set(seen.runs) - stored.keys() == set()
    for run in stored.values():
        steps = [step["status"] for step in run["status"]["transitions"]]
        assert (run["status"]["state"], steps) == ("READY", ["READY", "CREATED"])
    audited: list[str] = []
    parameters: dict[str, Any] = {"project": "demo", "limit": 1000}
    while True:
        page = (await client.get("/api/v1/audit", params=parameters)).json()
        audited += [entry["id"] for entry in page["entries"] if entry["action"] == "run.submit"]
        if "next" not in page:
            break
        parameters["before"] = page["next"]
    assert sorted(audited) == sorted(stored)
    return len(stored) - len(seen.runs)


class Spawner:
    """Starts servers by forks of a process that has everything imported."""

    def __init__(self, place: Place) -> None:
        self._output = place.folder / "output"
        flags = {"port": "0", "data": str(place.folder / "data"), "max_requests": "100000", "log_level": "warning"}
        self._asked: dict[str, Any] = {"output": str(self._output), "flags": flags}
        self._environment = make_environment(place.environment)
        self._process: asyncio.subprocess.Process | None = None
        self._server: int | None = None

    async def begin(self) -> None:
        """Import everything."""
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.integration.core.spawner"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=self._environment,
            cwd=Path(__file__).parents[3],
        )

    async def start(self) -> str:
        """A server; where it listens."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._output.unlink(missing_ok=True)
        self._process.stdin.write(json.dumps(self._asked).encode() + b"\n")
        self._server = int(await asyncio.wait_for(self._process.stdout.readline(), START_SECONDS))
        deadline = time.monotonic() + START_SECONDS
        while (found := self._find_url()) is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"the server did not start:\n{self._output.read_text()}")
            await asyncio.sleep(0.005)
        return found

    def kill(self) -> None:
        """As a crash would."""
        assert self._server is not None
        os.kill(self._server, signal.SIGKILL)
        self._asked["previous"] = self._server
        self._server = None

    async def end(self) -> None:
        """Leave nothing."""
        if self._server is not None:
            self.kill()
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            await self._process.wait()

    def _find_url(self) -> str | None:
        if not self._output.exists():
            return None
        found = _LISTENS.search(self._output.read_text())
        return None if found is None else found[1]
