"""LISTEN and NOTIFY: processes on one PostgreSQL hear of each other's commits, and of nothing else."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from runyard.app.ports import RunUpdate
from runyard.store import SqlStore, notifications, open_store
from runyard.store.notifications import LARGEST_PAYLOAD_BYTES, make_payloads
from tests.contract.store.builders import add_due, claim, make_run
from tests.postgres import Postgres, run_postgres

LONG = timedelta(minutes=5)
PATIENCE = 60.0


@asynccontextmanager
async def listening(store: SqlStore) -> AsyncIterator["asyncio.Queue[Sequence[str]]"]:
    """What arrives, from when the connection listens."""
    heard: asyncio.Queue[Sequence[str]] = asyncio.Queue()

    async def follow() -> None:
        async for batch in store.listen():
            heard.put_nowait(batch)

    task = asyncio.create_task(follow())
    try:
        assert list(await hear(heard)) == []
        yield heard
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def hear(heard: "asyncio.Queue[Sequence[str]]") -> Sequence[str]:
    async with asyncio.timeout(PATIENCE):
        return await heard.get()


async def hear_all(heard: "asyncio.Queue[Sequence[str]]", number: int) -> list[str]:
    uids: list[str] = []
    while len(uids) < number:
        uids += await hear(heard)
    return sorted(uids)


async def test_others_hear_of_a_change_when_it_is_committed(pair: tuple[SqlStore, SqlStore]) -> None:
    first, second = pair
    async with listening(second) as heard:
        async with first.begin() as work:
            run = await work.runs.add(make_run("r1"), [], due_in=timedelta(0))
            await asyncio.sleep(0.1)
            assert heard.empty()
            await work.commit()
        assert await hear(heard) == ["r1"]
        async with first.begin() as work:
            await work.runs.update(run, replace(run, desired="stop"))
            await work.commit()
        assert await hear(heard) == ["r1"]
        async with first.begin() as work:
            await work.runs.wake(["r1"])
            await work.commit()
        assert await hear(heard) == ["r1"]
        async with first.begin() as work:
            await work.runs.delete(["r1"])
            await work.commit()
        assert await hear(heard) == ["r1"]


async def test_nothing_is_heard_when_it_is_undone_ones_own_or_no_news(pair: tuple[SqlStore, SqlStore]) -> None:
    first, second = pair
    async with listening(second) as heard:
        async with first.begin() as work:
            await work.runs.add(make_run("undone"), [])
        async with second.begin() as work:
            await work.runs.add(make_run("own"), [])
            await work.commit()
        async with first.begin() as work:
            await add_due(work, make_run("r1"))
            await work.commit()
        assert await hear(heard) == ["r1"]
        async with first.begin() as work:
            [(_, lease)] = await claim(work)
            await work.runs.renew_leases("me", lease_for=LONG)
            await work.runs.release(lease, due_in=LONG)
            await work.commit()
        async with first.begin() as work:
            await work.runs.add(make_run("last"), [])
            await work.commit()
        assert await hear(heard) == ["last"]


async def test_every_uid_arrives_when_more_change_than_one_notification_holds(pair: tuple[SqlStore, SqlStore]) -> None:
    first, second = pair
    names = [f"{number:032}" for number in range(600)]
    async with first.begin() as work:
        for name in names:
            await work.runs.add(make_run(name), [])
        await work.commit()
    async with listening(second) as heard:
        async with first.begin() as work:
            locked = await work.runs.lock_observed(names)
            await work.runs.update_many([RunUpdate(before=run, after=replace(run, message="m")) for run in locked])
            await work.commit()
        assert await hear_all(heard, len(names)) == names


async def test_listener_says_that_it_may_have_missed_something_when_its_connection_was_lost(
    pair: tuple[SqlStore, SqlStore], postgres: Postgres
) -> None:
    first, second = pair
    async with listening(second) as heard:
        ended = postgres.run_sql(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
        )
        assert int(ended) >= 1  # the connection of a test before may still be on its way out
        assert list(await hear(heard)) == []
        async with first.begin() as work:
            await work.runs.add(make_run("r1"), [])
            await work.commit()
        assert await hear(heard) == ["r1"]


async def test_listener_comes_back_when_the_server_does() -> None:
    with run_postgres() as server:
        url = server.create_database()
        first, second = await open_store(url), await open_store(url)
        async with listening(second) as heard:
            server.kill()
            await asyncio.sleep(0.2)
            server.start()
            assert list(await hear(heard)) == []
            async with first.begin() as work:
                await work.runs.add(make_run("r1"), [])
                await work.commit()
            assert await hear(heard) == ["r1"]
        await first.close()
        await second.close()


async def test_reader_is_told_when_it_does_not_keep_up(
    pair: tuple[SqlStore, SqlStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "MOST_UNREAD_UIDS", 3)
    first, second = pair
    batches = second.listen()
    async with asyncio.timeout(PATIENCE):
        assert list(await anext(batches)) == []
        async with first.begin() as work:
            for number in range(4):
                await work.runs.add(make_run(f"r{number}"), [])
            await work.commit()
        assert list(await anext(batches)) == []


async def test_dead_connection_is_noticed_when_nothing_arrives(
    pair: tuple[SqlStore, SqlStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "PROBE_SECONDS", 0.05)
    first, second = pair
    async with listening(second) as heard:
        await asyncio.sleep(0.3)
        assert heard.empty()
        async with first.begin() as work:
            await work.runs.add(make_run("r1"), [])
            await work.commit()
        assert await hear(heard) == ["r1"]


async def test_listener_takes_no_connection_from_units_of_work(pair: tuple[SqlStore, SqlStore]) -> None:
    first, second = pair
    async with listening(second), asyncio.timeout(PATIENCE):
        held = [second.begin() for _ in range(6)]
        for unit in held:
            work = await unit.__aenter__()
            await work.read_clock()
        async with listening(first):
            pass
        for unit in held:
            await unit.__aexit__(None, None, None)


async def test_sqlite_waits_for_ever_when_it_is_listened_to(tmp_path: object) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/runyard.db")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await anext(store.listen())
    await store.close()


def test_payloads_are_short_enough_when_uids_are_long_or_many() -> None:
    uids = {f"{number}" + 'ü"' * 150 for number in range(100)}
    payloads = list(make_payloads("me", uids))
    assert all(len(payload.encode()) <= LARGEST_PAYLOAD_BYTES for payload in payloads)
    read = [json.loads(payload) for payload in payloads]
    assert {one[0] for one in read} == {"me"}
    assert sorted(uid for one in read for uid in one[1:]) == sorted(uids)
    assert list(make_payloads("me", ())) == []
