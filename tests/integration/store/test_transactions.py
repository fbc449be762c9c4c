"""SQLite works on the event loop's own thread, and yet nobody is held up: by long reads, the disk, other programs."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection
from sqlalchemy.dialects.sqlite import pysqlite

from runyard.store import open_store, sqlite_transactions
from runyard.store.connections import make_transaction_factory
from runyard.store.errors import StoreConflict, StoreUnavailable
from runyard.store.sqlite_transactions import SqliteTransactionFactory
from runyard.store.transactions import Transaction
from runyard.store.urls import parse_url

# Some tenths of a second: a hundred times the patience of the event loop.
LONG = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000) SELECT max(i) FROM n"


class Place:
    """A database with one row of notes, and links to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.writer, self.reader = make_transaction_factory(parse_url(f"sqlite:///{path}"))
        self._held: list[Transaction] = []

    def transaction(self, *, is_writing: bool = False) -> Transaction:
        """One that is given back with the place."""
        transaction = (self.writer if is_writing else self.reader).make()
        self._held.append(transaction)
        return transaction

    async def close(self) -> None:
        """Give everything back."""
        for transaction in self._held:
            await transaction.close()
        await self.writer.dispose()
        await self.reader.dispose()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    path = tmp_path / "runyard.db"
    await (await open_store(f"sqlite:///{path}")).close()
    place = Place(path)
    yield place
    await place.close()


def read_note(connection: Connection) -> Any:
    return connection.exec_driver_sql("SELECT value FROM meta WHERE name = 'note'").scalar()


def write_note(value: str) -> Any:
    statement = "INSERT INTO meta (name, value) VALUES ('note', ?) ON CONFLICT DO UPDATE SET value = excluded.value"
    return lambda connection: connection.exec_driver_sql(statement, (value,)).rowcount


async def count_turns(until: "asyncio.Task[Any]") -> int:
    """How often others had their turn meanwhile."""
    turns = 0
    while not until.done():
        await asyncio.sleep(0.001)
        turns += 1
    return turns


async def test_short_work_stays_on_the_thread_of_the_loop_when_it_is_done(place: Place) -> None:
    transaction = place.transaction()
    assert await transaction.run(lambda _: threading.current_thread(), "read") is threading.main_thread()


async def test_others_have_their_turn_when_a_read_is_long(place: Place) -> None:
    threads = []

    def read(connection: Connection) -> Any:
        threads.append(threading.current_thread())
        return connection.exec_driver_sql(LONG).scalar()

    task = asyncio.create_task(place.transaction().run(read, "read"))
    turns = await count_turns(task)

    assert task.result() == 2_000_000
    assert turns > 10
    assert threads[0] is threading.main_thread()
    assert [thread.name.partition("_")[0] for thread in threads[1:]] == ["store"]


async def test_one_state_is_read_when_a_read_was_begun_again(place: Place) -> None:
    writing, reading = place.transaction(is_writing=True), place.transaction()
    await writing.run(write_note("before"), "write")
    await writing.commit()
    assert await reading.run(read_note, "read") == "before"

    begun = asyncio.Event()

    def read_long(connection: Connection) -> Any:
        loop.call_soon_threadsafe(begun.set)
        return connection.exec_driver_sql(LONG).scalar()

    loop = asyncio.get_running_loop()
    task = asyncio.create_task(reading.run(read_long, "read"))
    await begun.wait()
    await writing.run(write_note("after"), "write")
    await writing.commit()
    await task

    assert await reading.run(read_note, "read") == "before"
    await reading.close()
    assert await place.transaction().run(read_note, "read") == "after"


async def test_what_was_written_stays_when_a_read_of_the_same_unit_is_long(place: Place) -> None:
    transaction = place.transaction(is_writing=True)
    await transaction.run(write_note("mine"), "write")
    await transaction.run(lambda connection: connection.exec_driver_sql(LONG).scalar(), "read")
    await transaction.commit()
    await transaction.close()
    assert await place.transaction().run(read_note, "read") == "mine"


async def test_long_write_is_not_interrupted_when_it_takes_its_time(place: Place) -> None:
    transaction = place.transaction(is_writing=True)
    statement = f"INSERT INTO meta (name, value) SELECT 'many', * FROM ({LONG})"
    await transaction.run(lambda connection: connection.exec_driver_sql(statement).rowcount, "write")
    await transaction.commit()
    await transaction.close()
    found = await place.transaction().run(
        lambda connection: connection.exec_driver_sql("SELECT value FROM meta WHERE name = 'many'").scalar(), "read"
    )
    assert str(found) == "2000000"


async def test_connection_is_given_to_nobody_before_its_thread_is_done_when_the_reader_is_cancelled(
    place: Place,
) -> None:
    assert isinstance(place.writer, SqliteTransactionFactory)
    begun, done, loop = asyncio.Event(), threading.Event(), asyncio.get_running_loop()

    def work(connection: Connection) -> None:
        loop.call_soon_threadsafe(begun.set)
        try:
            connection.exec_driver_sql(LONG).scalar()
        finally:
            done.set()

    async def use() -> None:
        transaction = place.writer.make()
        try:
            await transaction.run(work, "long")
        finally:
            await transaction.close()

    task = asyncio.create_task(use())
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    assert await place.transaction(is_writing=True).run(lambda _: done.is_set(), "write")
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_nothing_is_connected_when_a_unit_of_work_asks_nothing(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/runyard.db")
    assert isinstance(store._writer, SqliteTransactionFactory)
    async with store.begin(), store.begin() as second:
        await second.commit()
    assert store._writer.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    await store.close()


async def test_writer_waits_and_the_others_do_not_when_another_program_writes_to_the_file(place: Place) -> None:
    other = sqlite3.connect(place.path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    task = asyncio.create_task(place.transaction(is_writing=True).run(write_note("late"), "write"))
    await asyncio.sleep(0.2)
    assert await place.transaction().run(read_note, "read") is None
    assert not task.done()
    other.execute("ROLLBACK")
    other.close()
    assert await task == 1


async def test_error_is_clear_when_another_program_does_not_give_the_file_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runyard.store.sqlite_transactions.LOCKED_SECONDS", 0.1)
    store = await open_store(f"sqlite:///{tmp_path}/runyard.db")
    other = sqlite3.connect(tmp_path / "runyard.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    async with store.begin() as unit:
        with pytest.raises(StoreConflict, match="database is locked"):
            await unit.put_meta("x", "y")
    other.close()
    async with store.begin() as unit:
        await unit.put_meta("x", "y")
        await unit.commit()
    await store.close()


async def test_start_waits_when_another_program_writes_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "runyard.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("PRAGMA journal_mode = WAL")
    other.execute("BEGIN IMMEDIATE")
    opening = asyncio.create_task(open_store(f"sqlite:///{path}"))
    await asyncio.sleep(0.3)
    assert not opening.done()
    other.close()
    await (await opening).close()


async def test_connection_is_given_back_when_it_cannot_be_rolled_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/runyard.db")

    async def leave_undone() -> None:
        async with store.begin() as unit:
            await unit.put_meta("x", "lost")
            monkeypatch.setattr(pysqlite.dialect, "do_rollback", fail_to_roll_back)

    with pytest.raises(StoreUnavailable, match="disk I/O error"):
        await leave_undone()
    monkeypatch.undo()
    async with store.begin() as unit:
        await unit.put_meta("x", "y")
        await unit.commit()
    async with store.begin(is_read_only=True) as unit:
        assert await unit.get_meta("x") == "y"
    await store.close()


def fail_to_roll_back(_dialect: Any, _connection: Any) -> None:
    raise sqlite3.OperationalError("disk I/O error")


async def test_unit_under_way_is_waited_for_when_the_store_is_closed(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/runyard.db")
    begun = asyncio.Event()

    async def write() -> None:
        async with store.begin() as unit:
            await unit.put_meta("x", "y")
            begun.set()
            await asyncio.sleep(0.1)
            await unit.commit()

    task = asyncio.create_task(write())
    await begun.wait()
    await store.close()
    await task
    again = await open_store(f"sqlite:///{tmp_path}/runyard.db")
    async with again.begin(is_read_only=True) as unit:
        assert await unit.get_meta("x") == "y"
    await again.close()


async def test_error_is_clear_when_the_store_was_closed_under_a_unit_of_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runyard.store.sqlite_transactions.CLOSING_SECONDS", 0.05)
    store = await open_store(f"sqlite:///{tmp_path}/runyard.db")
    async with store.begin() as unit:
        await unit.put_meta("x", "y")
        await store.close()
        with pytest.raises(StoreUnavailable, match="closed"):
            await unit.commit()
    async with store.begin() as unit:
        with pytest.raises(StoreUnavailable, match="closed"):
            await unit.get_meta("x")


async def test_thread_is_free_soon_when_a_long_read_is_cancelled(place: Place) -> None:
    begun = threading.Event()

    def read(connection: Connection) -> None:
        begun.set()
        connection.exec_driver_sql(LONG.replace("2000000", "2000000000")).scalar()

    task = asyncio.create_task(place.transaction().run(read, "read"))
    await asyncio.to_thread(begun.wait)
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        # Hours, if it went on to its end.
        await asyncio.wait_for(task, 20)


@pytest.mark.parametrize(
    ("is_urgent", "impatient", "is_interrupted"),
    [
        (False, "PATIENCE_SECONDS", True),
        (False, "URGENT_PATIENCE_SECONDS", False),
        (True, "URGENT_PATIENCE_SECONDS", True),
        (True, "PATIENCE_SECONDS", False),
    ],
)
async def test_others_have_their_turn_when_one_unit_of_work_has_taken_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_urgent: bool, impatient: str, is_interrupted: bool
) -> None:
    for name in ("PATIENCE_SECONDS", "URGENT_PATIENCE_SECONDS"):
        monkeypatch.setattr(sqlite_transactions, name, 0.0 if name == impatient else 1000.0)
    store = await open_store(f"sqlite:///{tmp_path}/runyard.db")
    turns = 0

    async def write_much() -> None:
        async with store.begin(is_urgent=is_urgent) as unit:
            for number in range(100):
                await unit.put_meta(f"name-{number}", "value")

    task = asyncio.create_task(write_much())
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    await task
    assert turns >= 100 if is_interrupted else turns <= 2
    await store.close()
