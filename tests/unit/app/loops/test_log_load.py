"""What logs cost: a flood beside quiet runs, many runs at once, the memory of one that only waits."""

import asyncio
import gc
import time
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runyard.app.loops import log_collection
from runyard.logs import open_logs
from tests.unit.app.loops.log_world import LogWorld, make_anchor, make_source, wait_for

MIB = 1 << 20


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[LogWorld]:
    logs = open_logs(f"folder:{tmp_path}/logs")
    yield LogWorld(logs)
    await logs.close()


async def test_quiet_runs_are_not_slowed_when_another_floods(
    world: LogWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    flood = make_source("flood")
    quiet = [make_source(f"quiet-{number}") for number in range(20)]
    for source in quiet:
        world.write(source, b"begin\n")
    async with world.collect() as collector:
        for source in quiet:
            collector.attend(make_anchor(source.run_uid))
        for source in quiet:
            await world.wait_until(source, size=6)
        # As much as it can read; the flood never ends while the others are measured.
        world.write(flood, b"0123456789abcde\n" * (128 * MIB // 16))
        collector.attend(make_anchor("flood"))
        await world.wait_until(flood, size=MIB)
        delays = []
        for number, source in enumerate(quiet):
            began = time.perf_counter()
            world.write(source, b"line %d\n" % number)
            await world.wait_until(source, size=7 + 6)
            delays.append(time.perf_counter() - began)
        info = await world.find(flood)
        assert info is not None
        assert not info.is_complete
        await collector.forget("flood")
    with capsys.disabled():
        print(f"\nflood of {info.size / MIB:.0f} MiB: others stored after at most {max(delays) * 1000:.0f} ms", end="")  # noqa: T201


async def test_runs_without_news_cost_little_when_all_are_attended_to_again(
    world: LogWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = [make_source(f"run-{number}") for number in range(1000)]
    for source in sources:
        world.write(source)
    async with world.collect(most_followed=100) as collector:
        began = time.process_time()
        for source in sources:
            collector.attend(make_anchor(source.run_uid))

        async def is_listed() -> bool:
            return len(collector._runs) == len(sources) and not collector._unlisted

        await wait_for(is_listed, seconds=120)
        first = time.process_time() - began
        calls = sum(world.logs.calls.values())
        began = time.process_time()
        for source in sources:
            collector.attend(make_anchor(source.run_uid))
        await wait_for(is_listed, seconds=120)
        again = time.process_time() - began
        assert sum(world.logs.calls.values()) == calls, "nothing new: log storage is not asked"
    each, each_again = (seconds / len(sources) * 1e6 for seconds in (first, again))
    with capsys.disabled():
        print(f"\n{len(sources)} runs attended to: {each:.0f} µs each, again {each_again:.0f} µs", end="")  # noqa: T201


async def test_source_that_waits_needs_little_memory(
    world: LogWorld, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_collection, "TURN_SECONDS", 3600.0)
    sources = [make_source(f"run-{number}") for number in range(1000)]
    anchors = [make_anchor(source.run_uid) for source in sources]
    for source in sources:
        world.write(source, b"x" * 10_000)
    async with world.collect() as collector:
        gc.collect()
        tracemalloc.start()
        try:
            for anchor in anchors:
                collector.attend(anchor)
            for source in sources:
                await world.wait_until(source, size=10_000)
            await asyncio.sleep(0.5)
            gc.collect()
            size, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert len(collector._followed) == len(sources)
    with capsys.disabled():
        print(f"\nan output that is followed and waits: {size / len(sources) / 1024:.1f} KiB", end="")  # noqa: T201
    assert size / len(sources) < 10 * 1024
