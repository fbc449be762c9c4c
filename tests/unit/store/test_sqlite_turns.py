"""Who gets the connection of SQLite next, and when a commit begins."""

import asyncio
import threading
from pathlib import Path

from sqlalchemy import text

from runyard.store.connections import make_sqlite_engine
from runyard.store.sqlite_transactions import SqliteTransactionFactory, Turns
from runyard.store.urls import SqliteUrl


async def begin_waiting(turns: Turns, name: str, served: list[str], *, is_urgent: bool = False) -> asyncio.Task[None]:
    async def wait() -> None:
        await turns.acquire(is_urgent=is_urgent)
        served.append(name)

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    return task


async def test_urgent_ones_are_served_first_when_several_wait() -> None:
    turns, served = Turns(1), list[str]()
    await turns.acquire()
    assert not turns.is_free
    for name, is_urgent in (("one", False), ("two", False), ("urgent", True), ("urgent too", True)):
        await begin_waiting(turns, name, served, is_urgent=is_urgent)
    for _ in range(4):
        turns.release()
        await asyncio.sleep(0)
    assert served == ["urgent", "urgent too", "one", "two"]
    turns.release()
    assert turns.is_free


async def test_no_turn_is_lost_when_one_that_waits_is_cancelled() -> None:
    turns, served = Turns(1), list[str]()
    await turns.acquire()
    gone = await begin_waiting(turns, "gone", served)
    given = await begin_waiting(turns, "given", served)
    await begin_waiting(turns, "last", served)
    gone.cancel()
    await asyncio.sleep(0)
    turns.release()  # to the second one, which is cancelled before it runs
    given.cancel()
    await asyncio.gather(gone, given, return_exceptions=True)
    await asyncio.sleep(0)
    assert served == ["last"]
    turns.release()
    assert turns.is_free


async def test_other_work_begins_after_the_commit_when_the_thread_is_late(tmp_path: Path) -> None:
    engine = make_sqlite_engine(SqliteUrl(path=tmp_path / "x.db"), begin="BEGIN IMMEDIATE")
    factory = SqliteTransactionFactory(engine, size=1, wait_seconds=1)
    transaction = factory.make()
    await transaction.run(lambda connection: connection.execute(text("CREATE TABLE t (x)")), "write")
    is_free, began = threading.Event(), asyncio.Event()
    late = asyncio.create_task(factory.run_on_thread(is_free.wait))
    committing = asyncio.create_task(transaction.commit(meanwhile=began.set))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not began.is_set()
    is_free.set()
    async with asyncio.timeout(10):
        await began.wait()
        await committing
    await late
    await transaction.close()
    await factory.dispose()
