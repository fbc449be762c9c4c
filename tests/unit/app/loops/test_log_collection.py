"""The log collector: every byte once, whatever fails; complete when the engine says so."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runyard.app.engine import Engine, EngineRefusal, EngineUnavailable, LogChunk, LogGap, LogSource
from runyard.app.loops import LogCollector, log_collection, log_writer
from runyard.app.ports import Store
from runyard.logs import open_logs
from tests.engines.memory import NOON
from tests.unit.app.loops.log_world import NOW, LogWorld, make_anchor, make_source, to_stream, wait_for

SOURCE = make_source()
ANCHOR = make_anchor()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[LogWorld]:
    logs = open_logs(f"database:{tmp_path}/logs.db")
    yield LogWorld(logs)
    await logs.close()


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_collection, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(log_collection, "TICK_SECONDS", 0.01)
    monkeypatch.setattr(log_writer, "FIRST_PAUSE_SECONDS", 0.01)


async def test_output_is_stored_as_it_comes_when_a_run_is_attended_to(world: LogWorld) -> None:
    world.write(SOURCE, b"one\n")
    async with world.collect() as collector:
        collector.attend(ANCHOR)
        await world.wait_until(SOURCE, size=4)
        world.write(SOURCE, b"two\n")
        await world.wait_until(SOURCE, size=8)
        info = await world.find(SOURCE)
        assert info is not None
        assert (info.position, info.position_offset, info.is_complete) == ("8", 8, False)
        world.write(SOURCE, is_ended=True)
        await world.wait_until_complete(SOURCE)
    info = await world.find(SOURCE)
    assert info is not None
    assert info.cause is None
    assert await world.read(SOURCE) == b"one\ntwo\n"


async def test_readers_are_woken_when_bytes_are_stored(world: LogWorld) -> None:
    async with world.collect() as collector:
        waiting = asyncio.create_task(world.core.signals.wait("run-1", seconds=60))
        await asyncio.sleep(0)
        world.write(SOURCE, b"one\n")
        collector.attend(ANCHOR)
        async with asyncio.timeout(30):
            await waiting
    assert not world.core.signals.due.is_set(), "output of a container is no work for the reconcile loop"


async def test_it_continues_at_the_stored_position_when_the_server_is_restarted(world: LogWorld) -> None:
    world.write(SOURCE, b"one\n")
    async with world.collect() as collector:
        collector.attend(ANCHOR)
        await world.wait_until(SOURCE, size=4)
    # What was read before cannot be read again: it must not be asked for.
    world.engine.outputs[SOURCE].lost = 4
    world.write(SOURCE, b"two\n", is_ended=True)
    async with world.collect() as collector:
        collector.attend(ANCHOR)
        await world.wait_until_complete(SOURCE)
    assert await world.read(SOURCE) == b"one\ntwo\n"
    assert await world.read_gaps(SOURCE) == []


async def test_nothing_is_lost_or_doubled_when_the_engine_fails_in_mid_stream(world: LogWorld) -> None:
    lines = [b"%d %s\n" % (number, b"x" * 5000) for number in range(100)]
    world.write(SOURCE, b"".join(lines), is_ended=True)
    world.engine.failures = [EngineUnavailable("engine.unavailable", "cut") for _ in range(5)]
    async with world.collect() as collector:
        collector.attend(ANCHOR)
        await world.wait_until_complete(SOURCE)
    assert world.engine.failures == []
    assert await world.read(SOURCE) == b"".join(lines)


@pytest.mark.parametrize("kind", ["before", "after"])
async def test_nothing_is_lost_or_doubled_when_log_storage_fails(world: LogWorld, kind: str) -> None:
    """`after`: the write was stored, and its answer was lost."""
    world.write(SOURCE, b"x" * 100_000)
    world.engine.outputs[SOURCE].lost = 50_000
    world.write(SOURCE, b"y" * 100_000, is_ended=True)
    fails = iter([True, False, True, True, False, True, True, False, True, False])
    setattr(world.logs, f"fails_{kind}", lambda _act, _run: next(fails, False))
    async with world.collect() as collector:
        collector.attend(ANCHOR)
        await world.wait_until_complete(SOURCE)
    assert next(fails, None) is None
    assert await world.read(SOURCE) == b"x" * 50_000 + b"y" * 100_000
    assert await world.read_gaps(SOURCE) == ["rotated"]


async def test_output_is_read_again_when_log_storage_stays_down(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "RETRY_SECONDS", 0.05)
    other = make_source("run-2")
    world.write(SOURCE, b"one\n", is_ended=True)
    world.write(other, b"other\n", is_ended=True)
    world.logs.fails_before = lambda act, run: act == "append" and run == "run-1"
    # One slot: whoever cannot write must not keep it.
    async with world.collect(most_followed=1) as collector:
        collector.attend(ANCHOR)
        collector.attend(make_anchor("run-2"))
        await world.wait_until_complete(other)
        assert await world.find(SOURCE) is None
        world.logs.fails_before = lambda _act, _run: False
        await world.wait_until_complete(SOURCE)
    assert await world.read(SOURCE) == b"one\n"


async def test_stream_is_finished_once_when_the_server_died_between_the_last_bytes_and_the_end(world: LogWorld) -> None:
    world.write(SOURCE, b"one\n", is_ended=True)
    world.logs.fails_before = lambda act, _run: act == "finish"
    async with world.collect() as collector:
        collector.attend(ANCHOR)
        await world.wait_until(SOURCE, size=4)
    info = await world.find(SOURCE)
    assert info is not None
    assert not info.is_complete
    world.logs.fails_before = lambda _act, _run: False
    async with world.collect() as collector:
        assert await collector.drain(ANCHOR, seconds=60)
    assert await world.read(SOURCE) == b"one\n"


async def test_restarted_container_has_a_stream_of_its_own(world: LogWorld) -> None:
    again = make_source(instance=1)
    world.write(SOURCE, b"first\n")
    async with world.collect() as collector:
        collector.attend(ANCHOR)
        await world.wait_until(SOURCE, size=6)
        world.write(SOURCE, is_ended=True)
        world.write(again, b"second\n", is_ended=True)
        collector.attend(ANCHOR)
        assert await collector.drain(ANCHOR, seconds=60)
    assert (await world.read(SOURCE), await world.read(again)) == (b"first\n", b"second\n")


async def test_gap_is_stored_in_its_place_when_the_engine_reports_one(world: LogWorld) -> None:
    world.write(SOURCE, b"one\n")
    async with world.collect() as collector:
        collector.attend(ANCHOR)
        await world.wait_until(SOURCE, size=4)
    world.write(SOURCE, b"lost\n")
    world.engine.outputs[SOURCE].lost = 9
    world.write(SOURCE, b"two\n", is_ended=True)
    async with world.collect() as collector:
        assert await collector.drain(ANCHOR, seconds=60)
    pieces = await world.read_pieces(SOURCE)
    assert [(piece.offset, piece.content, piece.gap) for piece in pieces] == [
        (0, b"one\n", None),
        (4, b"", "rotated"),
        (4, b"two\n", None),
    ]
    assert (pieces[1].at, pieces[1].until) == (NOON, NOON)


async def test_log_is_complete_with_a_gap_when_the_engine_refuses_to_read(world: LogWorld) -> None:
    world.write(SOURCE, b"one\n")
    world.engine.failures = [EngineRefusal("log.refused", "the node is gone")]

    async def let_listing_pass(point: str) -> None:
        if point == "list_log_sources":
            failures.extend(world.engine.failures)
            world.engine.failures.clear()
        elif point == "follow_log":
            world.engine.failures[:] = failures

    failures: list[Any] = []
    world.engine.at = let_listing_pass
    async with world.collect() as collector:
        assert await collector.drain(ANCHOR, seconds=60)
    info = await world.find(SOURCE)
    assert info is not None
    assert (info.is_complete, info.cause) == (True, "log.refused")
    assert await world.read_gaps(SOURCE) == ["the node is gone"]


async def test_log_is_cut_with_a_gap_when_a_run_writes_more_than_the_limit(world: LogWorld) -> None:
    side, other = make_source(pod="side"), make_source("run-2")
    world.write(SOURCE, b"x" * 150_000)
    world.write(other, b"y" * 90_000, is_ended=True)
    async with world.collect(max_bytes=100_000) as collector:
        collector.attend(ANCHOR)
        collector.attend(make_anchor("run-2"))
        await world.wait_until_complete(SOURCE, other)
        # The run goes on writing; nothing of it is read anymore.
        world.write(SOURCE, b"more" * 1000)
        world.write(side, b"side\n")
        collector.attend(ANCHOR)
        await world.wait_until_complete(side)
        assert await collector.drain(ANCHOR, seconds=60)
    assert await world.read(SOURCE) == b"x" * 100_000
    said = "limit: the log of a run has at most 100000 bytes; the rest was not stored"
    assert await world.read_gaps(SOURCE) == [said]
    assert (await world.read(side), await world.read_gaps(side)) == (b"", [said])
    infos = [await world.find(source) for source in (SOURCE, side, other)]
    assert [info and info.cause for info in infos] == ["limit", "limit", None]
    assert await world.read(other) == b"y" * 90_000


async def test_log_is_cut_once_when_the_server_dies_between_the_gap_and_the_end(world: LogWorld) -> None:
    world.write(SOURCE, b"x" * 150_000)
    world.logs.fails_before = lambda act, _run: act == "finish"
    async with world.collect(max_bytes=100_000) as collector:
        collector.attend(ANCHOR)
        await world.wait_until(SOURCE, size=100_000)

        async def is_finishing() -> bool:
            return bool(world.logs.calls["finish"])

        await wait_for(is_finishing)
    world.logs.fails_before = lambda _act, _run: False
    async with world.collect(max_bytes=100_000) as collector:
        assert await collector.drain(ANCHOR, seconds=60)
    assert len(await world.read_gaps(SOURCE)) == 1
    assert len(await world.read(SOURCE)) == 100_000


async def test_drain_waits_for_the_last_bytes_when_a_run_has_ended(world: LogWorld) -> None:
    world.write(SOURCE, b"one\n")
    async with world.collect() as collector:
        collector.attend(ANCHOR)
        draining = asyncio.create_task(collector.drain(ANCHOR, seconds=60))
        await world.wait_until(SOURCE, size=4)
        assert not draining.done()
        world.write(SOURCE, b"two\n", is_ended=True)
        assert await draining
        info = await world.find(SOURCE)
        assert info is not None
        assert (info.size, info.is_complete) == (8, True)


@pytest.mark.parametrize("pod", ["x" * 2000, "", "\ud800", "naïve"])
async def test_run_is_drained_when_an_output_has_a_name_that_nobody_can_store(world: LogWorld, pod: str) -> None:
    world.write(SOURCE, b"fine\n", is_ended=True)
    world.write(make_source(pod=pod), b"lost\n", is_ended=True)
    async with world.collect() as collector:
        assert await collector.drain(make_anchor(), seconds=60)
    assert await world.read(SOURCE) == b"fine\n"


async def test_nothing_is_started_when_the_event_loop_cancels_everything(world: LogWorld) -> None:
    world.write(SOURCE, b"fine\n")
    collector = LogCollector(world.core, cast("Engine", world.engine))
    collector.attend(make_anchor())
    await world.wait_until(SOURCE, size=5)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_drain_says_no_when_something_is_missing(world: LogWorld) -> None:
    world.write(SOURCE, b"one\n")
    async with world.collect() as collector:
        assert not await collector.drain(ANCHOR, seconds=0.05)
        world.engine.failures = [EngineUnavailable("engine.unavailable", "down")]
        assert not await collector.drain(ANCHOR, seconds=5)
        world.logs.fails_before = lambda act, _run: act == "list_streams"
        assert not await collector.drain(ANCHOR, seconds=5)
        world.logs.fails_before = lambda _act, _run: False
        world.write(SOURCE, is_ended=True)
        assert await collector.drain(ANCHOR, seconds=60)


async def test_drain_says_yes_when_a_run_has_no_output(world: LogWorld) -> None:
    async with world.collect() as collector:
        assert await collector.drain(ANCHOR, seconds=60)
        assert collector._runs == {}


async def test_log_is_complete_with_a_gap_when_the_engine_does_not_know_the_output_anymore(world: LogWorld) -> None:
    world.write(SOURCE, b"one\n")
    async with world.collect() as collector:
        collector.attend(ANCHOR)
        await world.wait_until(SOURCE, size=4)
    world.engine.outputs.clear()
    async with world.collect() as collector:
        assert await collector.drain(ANCHOR, seconds=60)
    info = await world.find(SOURCE)
    assert info is not None
    assert (info.size, info.is_complete, info.cause) == (4, True, "lost")
    assert await world.read_gaps(SOURCE) == ["lost: the engine has no more of this output"]


async def test_nothing_is_appended_when_a_run_was_forgotten(world: LogWorld) -> None:
    world.write(SOURCE, b"one\n")
    async with world.collect() as collector:
        collector.attend(ANCHOR)
        await world.wait_until(SOURCE, size=4)
        world.logs.held = asyncio.Event()
        world.write(SOURCE, b"two\n")
        await world.wait_until_held(1)
        forgetting = asyncio.create_task(collector.forget("run-1"))
        await asyncio.sleep(0.05)
        assert not forgetting.done(), "a write is in progress"
        world.logs.held.set()
        await forgetting
        await world.logs.delete("run-1")
        world.write(SOURCE, b"three\n")
        collector.attend(ANCHOR)
        assert not await collector.drain(ANCHOR, seconds=0.1)
        await asyncio.sleep(0.05)
    assert await world.logs.list_streams("run-1") == []


@pytest.mark.parametrize("state", [None, "DELETING", "RUNNING"])
async def test_deleted_log_is_not_made_anew_when_its_run_is_deleted(tmp_path: Path, state: str | None) -> None:
    """By another replica, or, of a run that goes on, by retention."""
    logs = open_logs(f"database:{tmp_path}/logs.db")
    world = LogWorld(logs, store=cast("Store", RunTable(state)))
    world.write(SOURCE, b"one\n")
    async with world.collect() as collector:
        collector.attend(ANCHOR)
        await world.wait_until(SOURCE, size=4)
        await logs.delete("run-1")
        world.write(SOURCE, b"two\n")
        if state == "RUNNING":
            await world.wait_until(SOURCE, size=4)
            assert await world.read(SOURCE) == b"two\n"
        else:

            async def is_given_up() -> bool:
                return not collector._runs

            await wait_for(is_given_up)
            assert await logs.list_streams("run-1") == []
    await logs.close()


async def test_newest_outputs_are_stored_when_there_are_too_many(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_collection, "MOST_SOURCES", 3)
    sources = [make_source(instance=number) for number in range(6)]
    for number, source in enumerate(sources):
        world.write(source, b"%d\n" % number, is_ended=True)
    async with world.collect() as collector:
        assert await collector.drain(ANCHOR, seconds=60)
        world.write(make_source(instance=6), b"6\n", is_ended=True)
        collector.attend(ANCHOR)
        assert await collector.drain(ANCHOR, seconds=60)
    infos = await world.logs.list_streams("run-1")
    assert sorted((info.stream.instance, info.size, info.cause) for info in infos) == [
        (2, 0, "limit"),
        (3, 2, None),
        (4, 2, None),
        (5, 2, None),
    ]
    said = "limit: a run has at most 3 log streams; other outputs were not stored"
    assert await world.read_gaps(sources[2]) == [said]


async def test_runs_of_other_replicas_are_left_to_them(world: LogWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_collection, "SHARD_SECONDS", 0.02)
    mine = {"run-1"}
    world.write(SOURCE, b"one\n")
    world.write(make_source("run-2"), b"two\n")
    async with world.collect(owns=mine.__contains__) as collector:
        collector.attend(ANCHOR)
        collector.attend(make_anchor("run-2"))
        await world.wait_until(SOURCE, size=4)
        mine.clear()

        async def is_given_up() -> bool:
            return not collector._runs

        await wait_for(is_given_up)
        world.write(SOURCE, b"more\n")
        await asyncio.sleep(0.05)
    assert await world.find(make_source("run-2")) is None
    assert await world.read(SOURCE) == b"one\n"


async def test_nothing_is_doubled_when_two_replicas_follow_the_same_run(world: LogWorld) -> None:
    content = b""
    async with world.collect() as one, world.collect() as other:
        one.attend(ANCHOR)
        other.attend(ANCHOR)
        for number in range(30):
            line = b"%d %s\n" % (number, b"x" * 3000)
            content += line
            world.write(SOURCE, line)
            await asyncio.sleep(0)
            if number == 10:
                world.engine.outputs[SOURCE].lost = len(content)
                await asyncio.sleep(0.02)
        world.write(SOURCE, is_ended=True)
        assert all(await asyncio.gather(one.drain(ANCHOR, seconds=60), other.drain(ANCHOR, seconds=60)))
    stored = await world.read(SOURCE)
    assert content.endswith(stored[-3000:])
    assert len(set(stored.splitlines())) == len(stored.splitlines())
    assert await world.read_gaps(SOURCE) in ([], ["rotated"])


@pytest.mark.parametrize("is_gap_first", [True, False])
async def test_bytes_stay_in_their_places_when_only_one_of_two_replicas_sees_a_gap(
    world: LogWorld, is_gap_first: bool
) -> None:
    """One has read what the other cannot read anymore; whoever is behind continues after what is stored."""
    lines = [b"%03d\n" % number for number in range(100)]
    world.write(SOURCE, b"".join(lines[:10]))
    async with world.collect() as one, world.collect() as other:
        one.attend(ANCHOR)
        await world.wait_until(SOURCE, size=40)
        world.logs.held = asyncio.Event()
        world.write(SOURCE, b"".join(lines[10:20]))
        await world.wait_until_held(1)  # one has read them, and cannot store them yet
        world.engine.outputs[SOURCE].lost = 80
        if not is_gap_first:
            world.logs.held.set()
            await world.wait_until(SOURCE, size=80)
        other.attend(ANCHOR)
        await asyncio.sleep(0.05)
        world.logs.held.set()
        world.write(SOURCE, b"".join(lines[20:]), is_ended=True)
        assert all(await asyncio.gather(one.drain(ANCHOR, seconds=60), other.drain(ANCHOR, seconds=60)))
    stored, gaps = await world.read(SOURCE), await world.read_gaps(SOURCE)
    if is_gap_first:
        assert stored in (b"".join(lines[:10] + lines[20:]), b"".join(lines))
        assert gaps == ([] if len(stored) == 400 else ["rotated"])
    else:
        assert (stored, gaps) == (b"".join(lines), [])


async def test_bytes_stay_in_their_places_when_two_replicas_read_different_chunks(world: LogWorld) -> None:
    lines = [b"%03d\n" % number for number in range(40)]
    world.write(SOURCE, b"".join(lines[:10]))
    async with world.collect() as one, world.collect() as other:
        one.attend(ANCHOR)
        await world.wait_until(SOURCE, size=40)
        world.logs.held = asyncio.Event()
        world.write(SOURCE, b"".join(lines[10:20]))
        await world.wait_until_held(1)
        world.write(SOURCE, b"".join(lines[20:30]))
        other.attend(ANCHOR)  # reads 10 to 30 at once, and writes after the first one has written 10 to 20
        await world.wait_until_held(2)
        closing = asyncio.create_task(one.close())
        await asyncio.sleep(0)
        world.logs.held.set()
        await closing
        await world.wait_until(SOURCE, size=120)
        world.write(SOURCE, b"".join(lines[30:]), is_ended=True)
        assert await other.drain(ANCHOR, seconds=60)
    assert await world.read(SOURCE) == b"".join(lines)


async def test_every_run_has_its_turn_when_there_are_fewer_slots_than_outputs(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_collection, "TURN_SECONDS", 0.02)
    sources = [make_source(f"run-{number}") for number in range(8)]
    for source in sources:
        world.write(source, b"one\n")
    async with world.collect(most_followed=2) as collector:
        for source in sources:
            collector.attend(make_anchor(source.run_uid))
        for source in sources:
            await world.wait_until(source, size=4)
        assert len(collector._followed) <= 2
        for source in sources:
            world.write(source, b"two\n", is_ended=True)
        await world.wait_until_complete(*sources)
    assert {await world.read(source) for source in sources} == {b"one\ntwo\n"}


async def test_drained_run_does_not_wait_for_its_turn_when_all_slots_are_taken(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_collection, "TURN_SECONDS", 1e6)
    for number in range(4):
        world.write(make_source(f"run-{number}"), b"one\n")
    world.write(make_source("last"), b"end\n", is_ended=True)
    async with world.collect(most_followed=2) as collector:
        for number in range(4):
            collector.attend(make_anchor(f"run-{number}"))
        await world.wait_until(make_source("run-1"), size=4)
        collector.attend(make_anchor("last"))
        assert await collector.drain(make_anchor("last"), seconds=20)


async def attend_to_all(world: LogWorld, collector: LogCollector, *runs: str) -> None:
    """Write a line in each run, and wait until the collector knows them all."""
    for run in runs:
        world.write(make_source(run), b"one\n")
        collector.attend(make_anchor(run))

    async def is_known() -> bool:
        return world.core.signals.collected >= set(runs)

    await wait_for(is_known)


async def test_log_that_is_read_does_not_wait_for_its_turn_when_all_slots_are_taken(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_collection, "TURN_SECONDS", 1e6)
    async with world.collect(most_followed=4) as collector:
        await attend_to_all(world, collector, *(f"run-{number}" for number in range(6)))
        await world.wait_until(make_source("run-3"), size=4)
        await attend_to_all(world, collector, "read")
        assert await world.find(make_source("read")) is None
        world.core.signals.notify_collector("read")
        await world.wait_until(make_source("read"), size=4)
        # An output that begins later too.
        world.write(make_source("read", instance=1), b"two\n")
        collector.attend(make_anchor("read"))
        await world.wait_until(make_source("read", instance=1), size=4)
        world.write(make_source("read"), b"two\n")
        await world.wait_until(make_source("read"), size=8)
        assert len(collector._followed) <= 4


async def test_log_that_is_read_keeps_its_slot_when_others_have_their_turns(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_collection, "TURN_SECONDS", 0.02)
    others = [f"run-{number}" for number in range(4)]
    async with world.collect(most_followed=2) as collector:
        await attend_to_all(world, collector, "read")
        world.core.signals.notify_collector("read")
        await world.wait_until(make_source("read"), size=4)
        (held,) = (one for one in collector._followed if one.source.run_uid == "read")
        since = held.since
        await attend_to_all(world, collector, *others)
        for run in others:
            await world.wait_until(make_source(run), size=4)
        assert held in collector._followed
        assert held.since == since


async def test_silent_outputs_give_up_their_slots_first_and_not_all_at_once_when_others_wait(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_collection, "TICK_SECONDS", 1e6)
    monkeypatch.setattr(log_collection, "TURNS_PER_SECOND", 2e-6)
    runs = [f"run-{number}" for number in range(8)]
    async with world.collect(most_followed=4) as collector:
        await attend_to_all(world, collector, *runs)
        for run in runs[:4]:
            await world.wait_until(make_source(run), size=4)
        now = 1e9
        for one, since, heard_at in zip(collector._followed, (60, 50, 40, 30), (1, 20, 1, 20), strict=True):
            one.since, one.heard_at = now - since, now - heard_at
        printing, silent, printing_too, silent_too = collector._followed
        collector._take_turns(now)
        assert [one for one in collector._followed if one.is_stopping] == [silent, silent_too]
        # Those that print have their turns too, the longest first.
        collector._take_turns(now)
        assert printing.is_stopping
        assert printing_too.is_stopping


async def test_output_that_never_had_a_slot_is_before_others_when_one_is_free(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_collection, "TURN_SECONDS", 0.02)
    async with world.collect(most_followed=1) as collector:
        await attend_to_all(world, collector, "run-0", "run-1", "run-2")
        for run in ("run-0", "run-1", "run-2"):
            await world.wait_until(make_source(run), size=4)
        monkeypatch.setattr(log_collection, "TURN_SECONDS", 1e6)
        await attend_to_all(world, collector, "new")
        assert await world.find(make_source("new")) is None
        (held,) = collector._followed
        held.stop()
        await world.wait_until(make_source("new"), size=4)


async def test_run_is_as_urgent_as_others_when_nobody_has_read_its_log_for_long(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_collection, "READ_SECONDS", 0.05)
    async with world.collect(most_followed=2) as collector:
        await attend_to_all(world, collector, "read")
        world.core.signals.notify_collector("read")

        async def is_urgent() -> bool:
            return collector._runs["read"].is_urgent

        async def is_forgotten() -> bool:
            return not await is_urgent() and not collector._read_runs

        await wait_for(is_urgent)
        await wait_for(is_forgotten)


async def test_others_have_half_of_the_slots_when_more_logs_are_read(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_collection, "TURN_SECONDS", 0.02)
    runs = [f"run-{number}" for number in range(6)]
    async with world.collect(most_followed=4) as collector:
        await attend_to_all(world, collector, *runs)
        for number in range(3):
            world.write(make_source("large", pod=f"pod-{number}"), b"one\n")
        collector.attend(make_anchor("large"))
        for run in (*runs, "large"):
            world.core.signals.notify_collector(run)
        for run in runs:
            await world.wait_until(make_source(run), size=4)
        for number in range(3):
            await world.wait_until(make_source("large", pod=f"pod-{number}"), size=4)
        assert sum(run.is_urgent for run in collector._runs.values()) == 2
        assert not collector._runs["large"].is_urgent


async def test_large_chunk_is_stored_in_parts_with_its_position_at_the_end(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "LARGEST_APPEND_BYTES", 1000)
    content = b"".join(b"%06d\n" % number for number in range(500))
    world.write(SOURCE, content)
    world.logs.fails_before = lambda act, _run: act == "append" and world.logs.calls["append"] > 2
    async with world.collect() as collector:
        collector.attend(ANCHOR)
        await world.wait_until(SOURCE, size=2000)
    info = await world.find(SOURCE)
    assert info is not None
    assert (info.size, info.position) == (2000, None)
    world.logs.fails_before = lambda _act, _run: False
    # What is stored and read again counts once towards the limit.
    async with world.collect(max_bytes=len(content) + 10) as collector:
        collector.attend(ANCHOR)
        await world.wait_until(SOURCE, size=len(content))
        world.write(SOURCE, b"the end\n", is_ended=True)
        assert await collector.drain(ANCHOR, seconds=60)
    assert await world.read(SOURCE) == content + b"the end\n"
    assert await world.read_gaps(SOURCE) == []


async def test_log_is_not_complete_when_the_server_stops_in_the_middle_of_a_write(world: LogWorld) -> None:
    world.logs.held = asyncio.Event()
    world.write(SOURCE, b"one\n")
    async with world.collect() as collector:
        collector.attend(ANCHOR)
        await world.wait_until_held(1)
        closing = asyncio.create_task(collector.close())
        await asyncio.sleep(0.05)
        assert not closing.done()
        world.logs.held.set()
        await closing
    info = await world.find(SOURCE)
    assert info is not None
    assert (info.size, info.is_complete) == (4, False)


async def test_other_outputs_are_listed_when_the_list_of_one_run_fails(world: LogWorld) -> None:
    async def fail_once(point: str) -> None:
        if point == "list_log_sources" and not failed:
            failed.append(point)
            raise RuntimeError("no such thing")

    failed: list[str] = []
    world.engine.at = fail_once
    for number in range(3):
        world.write(make_source(f"run-{number}"), b"one\n", is_ended=True)
    async with world.collect() as collector:
        for number in range(3):
            collector.attend(make_anchor(f"run-{number}"))
        await world.wait_until_complete(*(make_source(f"run-{number}") for number in range(3)))
    assert failed


async def test_broken_iterator_is_tried_again_when_it_raises_anything(world: LogWorld) -> None:
    """Also an iterator that is no generator, and so cannot be closed."""

    class Items:
        def __init__(self) -> None:
            items: list[LogChunk | Exception] = [LogChunk(content=b"one\n", at=NOON, position="4"), ZeroDivisionError()]
            self._items = iter(items)

        def __aiter__(self) -> "Items":
            return self

        async def __anext__(self) -> LogChunk | LogGap:
            item = next(self._items)
            if isinstance(item, Exception):
                raise item
            return item

    follow, first = world.engine.follow_log, [Items()]

    def follow_log(source: LogSource, *, after: str | None = None) -> Any:
        return first.pop() if first else follow(source, after=after)

    world.engine.follow_log = follow_log  # type: ignore[method-assign]
    world.write(SOURCE, b"one\ntwo\n", is_ended=True)
    async with world.collect() as collector:
        collector.attend(ANCHOR)
        await world.wait_until_complete(SOURCE)
    assert await world.read(SOURCE) == b"one\ntwo\n"


async def test_gap_may_have_any_span_when_the_clock_of_the_engine_is_ahead(world: LogWorld) -> None:
    async with world.collect(max_bytes=3) as collector:
        world.write(SOURCE, b"12345")
        with suppress(TimeoutError):
            collector.attend(ANCHOR)
            await world.wait_until_complete(SOURCE)
    (piece,) = [piece for piece in await world.read_pieces(SOURCE) if piece.gap]
    assert piece.until is not None
    assert piece.until - piece.at >= timedelta(0)
    assert (await world.logs.list_streams("run-1"))[0].stream == to_stream(SOURCE)


class RunTable:
    """A store whose only run is in a state, or is not there."""

    def __init__(self, state: str | None) -> None:
        self._state = state
        self.runs = self

    def begin(self, *, is_read_only: bool = False) -> "RunTable":
        assert is_read_only
        return self

    async def __aenter__(self) -> "RunTable":
        return self

    async def __aexit__(self, *_error: object) -> None:
        return None

    async def find_by_uid(self, _run_uid: str) -> object:
        return None if self._state is None else SimpleNamespace(state=self._state)


async def test_gap_says_so_when_nothing_was_read_of_a_lost_run(world: LogWorld) -> None:
    lost = LogSource(run_uid="run-1", pod="lost", container="lost")
    async with world.collect() as collector:
        assert await collector.drain(ANCHOR, seconds=5, lost_since=NOON)
        assert await collector.drain(ANCHOR, seconds=5, lost_since=NOON)
    (piece,) = await world.read_pieces(lost)
    assert piece.gap == "lost: the objects of the run are gone, and nothing of its output was read"
    assert (piece.at, piece.until) == (NOON, NOW)
    info = await world.find(lost)
    assert info is not None
    assert info.is_complete


async def test_gap_says_so_when_the_engine_does_not_know_a_pod_whose_end_is_known(world: LogWorld) -> None:
    """The end was seen by a server that died before it read the output, and the pod is gone."""
    unread = replace(make_source(pod="unread"), since=NOON)
    known = replace(SOURCE, container="never-started", since=NOON)
    world.write(SOURCE, b"one\n", is_ended=True)
    async with world.collect() as collector:
        for _ in range(2):
            assert await collector.drain(ANCHOR, seconds=5, ended=[replace(SOURCE, since=NOON), unread, known])
    assert sorted(info.stream.pod for info in await world.logs.list_streams("run-1")) == ["pod", "unread"]
    (piece,) = await world.read_pieces(unread)
    assert piece.gap == "lost: the engine has no more of this output"
    assert (piece.at, piece.until) == (NOON, NOW)
    assert await world.read(SOURCE) == b"one\n"


async def test_no_gap_is_made_up_when_the_output_of_a_lost_run_is_stored(world: LogWorld) -> None:
    world.write(SOURCE, b"one\n", is_ended=True)
    async with world.collect() as collector:
        collector.attend(ANCHOR)
        await world.wait_until_complete(SOURCE)
        world.engine.written.clear()
        assert await collector.drain(ANCHOR, seconds=5, lost_since=NOON)
    assert [info.stream.pod for info in await world.logs.list_streams("run-1")] == ["pod"]


@pytest.mark.parametrize(("stored", "kept"), [(0, 2), (1, 1), (2, 0), (3, 0)])
async def test_pod_that_nobody_saw_is_left_out_when_it_is_stored_under_its_name(
    world: LogWorld, stored: int, kept: int
) -> None:
    pods = [make_source(pod=f"pod-{number}") for number in range(stored)]
    for source in pods:
        world.write(source, b"one\n", is_ended=True)
    async with world.collect() as collector:
        collector.attend(ANCHOR)
        await world.wait_until_complete(*pods)
    unseen = [LogSource(run_uid="run-1", pod="unseen", container="main", instance=n, is_unseen=True) for n in (0, 1)]
    world.engine.written.clear()
    for source in (*unseen, SOURCE):
        world.write(source, b"x", is_ended=True)
    async with world.collect() as collector:
        assert await collector.drain(ANCHOR, seconds=60)
        assert await collector.drain(ANCHOR, seconds=60)
    assert [await world.find(source) is not None for source in unseen] == [kept > 0, kept > 1]
    assert await world.read(SOURCE) == b"x"
