"""How late a client that follows a log sees a line of a real container: quiet, and while another run floods its log."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import aiohttp

from bench.cluster.beds import open_real_bed
from bench.cluster.raw_api import RawApi
from bench.cluster.server import BASE, ClusterServer, open_server
from bench.report import progress

NAMESPACE = "follow"
SETTLE_SECONDS = 3.0
"""What was printed before all were followed, or before the flood had begun, is in no figure."""
FLOOD_BYTES = 1 << 20
"""The flood has begun when so much of it is stored."""
LIMIT_SECONDS = 180.0
RAW_PART = 4
"""Of so many runs, one is also followed by the raw client."""
_UPTIME = re.compile(rb"^(\d+\.\d\d)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FollowedLines:
    """Seconds from the print of a line to its arrival at the client, sorted."""

    followers: int
    quiet: Sequence[float]
    flooded: Sequence[float]
    """While another run printed as fast as it could."""
    flood_bytes: int
    """What was stored of that run meanwhile."""
    raw_quiet: Sequence[float]
    """Of a raw client that follows some of the pods at the apiserver, at the same time."""
    raw_flooded: Sequence[float]


@dataclass
class _Seen:
    """When lines were printed and when they came, in seconds since the machine was started."""

    lines: list[tuple[float, float]] = field(default_factory=list)

    async def follow(self, chunks: AsyncIterator[bytes]) -> None:
        """Each line is the uptime at which it was printed."""
        left = b""
        async for chunk in chunks:
            at = _read_uptime()
            whole, _, left = (left + chunk).rpartition(b"\n")
            self.lines += [(float(match[1]), at) for match in _UPTIME.finditer(whole)]

    def list_delays(self, since: float, until: float) -> list[float]:
        """Of the lines that were printed in that time."""
        return sorted(at - printed for printed, at in self.lines if since <= printed < until)


async def measure_follow(*, followers: int, seconds: float) -> FollowedLines:
    """So many runs print twice a second, each followed by a client of its own; both phases take so long."""
    with open_real_bed(has_audit=False) as bed:
        async with bed.connect("bench") as api:
            await bed.create_namespace(api, NAMESPACE)
            async with open_server(bed, namespace=NAMESPACE) as server:
                return await _measure(server, api, followers=followers, seconds=seconds)


async def _measure(server: ClusterServer, api: RawApi, *, followers: int, seconds: float) -> FollowedLines:
    progress(f"follow: {followers} runs that print, each followed")
    runs = [await server.submit("ticking") for _ in range(followers)]
    await server.wait_count("state = 'RUNNING'", followers)
    pods = (await api.get(f"/api/v1/namespaces/{NAMESPACE}/pods?limit={-(-followers // RAW_PART)}"))["items"]
    logs = [f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}/log?follow=true" for pod in pods]
    seen, raw = _Seen(), _Seen()
    following = [
        *(asyncio.create_task(seen.follow(_stream(server, run_id))) for run_id in runs),
        *(asyncio.create_task(raw.follow(api.stream(path))) for path in logs),
    ]
    try:
        quiet, raw_quiet = await _take_phase(seen, raw, seconds=seconds)
        progress("follow: the same beside a flood")
        flood = await server.submit("flooding")
        before = await _wait_for_flood(server, flood)
        flooded, raw_flooded = await server.profile(_take_phase(seen, raw, seconds=seconds))
        stored = await _find_size(server, flood) - before
        for task in following:
            if task.done():
                task.result()
        return FollowedLines(followers, quiet, flooded, stored, raw_quiet, raw_flooded)
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)


async def _stream(server: ClusterServer, run_id: str) -> AsyncIterator[bytes]:
    """A followed log from the API, as it comes."""
    endless = aiohttp.ClientTimeout(total=None)
    url = f"{server.core.url}{BASE}/runs/{run_id}/log?follow=true"
    async with server.session.get(url, timeout=endless) as answer:
        answer.raise_for_status()
        async for chunk in answer.content.iter_any():
            yield chunk


async def _take_phase(*sides: _Seen, seconds: float) -> Sequence[Sequence[float]]:
    await asyncio.sleep(SETTLE_SECONDS)
    since = _read_uptime()
    await asyncio.sleep(seconds)
    until = _read_uptime()
    await asyncio.sleep(SETTLE_SECONDS)  # the last ones are on their way
    return [seen.list_delays(since, until) for seen in sides]


async def _wait_for_flood(server: ClusterServer, run_id: str) -> int:
    async with asyncio.timeout(LIMIT_SECONDS):
        while True:
            if (size := await _find_size(server, run_id)) >= FLOOD_BYTES:
                return size
            await asyncio.sleep(0.2)


async def _find_size(server: ClusterServer, run_id: str) -> int:
    """How much of a run's log is stored."""
    async with server.session.get(f"{server.core.url}{BASE}/runs/{run_id}/log?tail=0") as answer:
        with suppress(KeyError):
            return int(answer.headers["X-Log-Offset"])
    return 0


def _read_uptime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
