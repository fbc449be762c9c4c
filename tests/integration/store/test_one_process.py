"""A SQLite database serves one process, whoever comes second is told who the first is."""

import asyncio
import os
import signal
import stat
import sys
from pathlib import Path

import pytest

from runyard.store import backup, open_store, read_status, upgrade
from runyard.store.errors import StoreLocked, StoreUnavailable
from runyard.store.sqlite_transactions import SqliteTransactionFactory
from tests.contract.store.builders import claim

HOLD = """
import asyncio, sys
from runyard.store import open_store

async def main():
    store = await open_store(sys.argv[1])
    print("open", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


CLAIM = """
import asyncio, sys
from datetime import timedelta
from runyard.store import open_store
from tests.contract.store.builders import add_due, claim, make_run

async def main():
    store = await open_store(sys.argv[1])
    async with store.begin() as work:
        await add_due(work, make_run("r1"))
        assert await claim(work, owner="killed", lease_for=timedelta(hours=1))
        await work.commit()
    print("open", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def start_holder(url: str, code: str = HOLD) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, url, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"open\n"
    return process


async def test_second_process_is_refused_when_a_first_has_the_database(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runyard.db"
    holder = await start_holder(url)
    try:
        for attempt in (open_store(url), upgrade(url)):
            with pytest.raises(StoreLocked, match=rf"runyard\.db is in use by process {holder.pid};"):
                await attempt
        assert (await read_status(url)).state == "current"
        await backup(url, tmp_path / "backup")
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        await holder.wait()

    store = await open_store(url)
    await store.close()


@pytest.mark.parametrize("link", ["symbolic link", "hard link", "linked directory"])
async def test_second_process_is_refused_when_it_comes_by_a_link(tmp_path: Path, link: str) -> None:
    file = tmp_path / "first" / "runyard.db"
    holder = await start_holder(f"sqlite:///{file}")
    (tmp_path / "second").mkdir()
    other = tmp_path / "second" / "other.db"
    try:
        if link == "symbolic link":
            other.symlink_to(file)
        elif link == "hard link":
            other.hardlink_to(file)
        else:
            (tmp_path / "third").symlink_to(file.parent)
            other = tmp_path / "third" / "runyard.db"
        who = "another process" if link == "hard link" else f"process {holder.pid}"
        for attempt in (open_store(f"sqlite:///{other}"), upgrade(f"sqlite:///{other}")):
            with pytest.raises(StoreLocked, match=rf"{other} is in use by {who};"):
                await attempt
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        await holder.wait()
    store = await open_store(f"sqlite:///{file}")
    await store.close()


async def test_lock_stays_when_another_descriptor_of_the_file_is_closed(tmp_path: Path) -> None:
    file, other = tmp_path / "runyard.db", tmp_path / "other.db"
    store = await open_store(f"sqlite:///{file}")
    other.hardlink_to(file)
    # This releases all POSIX locks of the process on the file.
    with file.open("rb"):
        pass
    with pytest.raises(StoreLocked, match="is in use by another process"):
        await open_store(f"sqlite:///{other}")
    await store.close()


async def test_database_is_free_when_its_store_was_closed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runyard.db"
    first = await open_store(url)
    with pytest.raises(StoreLocked, match=rf"this process \({os.getpid()}\) already"):
        await open_store(url)
    await first.close()
    second = await open_store(url)
    await second.close()


async def test_database_is_free_when_opening_it_failed(tmp_path: Path) -> None:
    file = tmp_path / "runyard.db"
    file.write_text("not a database, but long enough to be looked at" * 100)
    for _ in range(2):
        with pytest.raises(Exception, match="cannot be read"):
            await open_store(f"sqlite:///{file}")


async def test_reason_is_told_when_the_place_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for place in (tmp_path / "file" / "runyard.db", tmp_path / "folder"):
        for attempt in (open_store(f"sqlite:///{place}"), upgrade(f"sqlite:///{place}")):
            with pytest.raises(StoreUnavailable, match="cannot be used"):
                await attempt


async def test_folder_is_made_and_the_file_is_its_owners_alone_when_it_is_new(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = await open_store(f"sqlite:///{tmp_path}/a/b/runyard.db")
        async with store.begin() as work:
            await work.put_meta("x", "y")
            await work.commit()
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a" / "b").iterdir()}
        await store.close()
    finally:
        os.umask(before)
    assert set(modes) >= {"runyard.db", "runyard.db-wal", "runyard.db.lock"}
    assert set(modes.values()) == {0o600}


async def test_settings_are_those_of_the_promise_when_sqlite_is_used(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/runyard.db")
    found = {}
    for role, factory in (("writer", store._writer), ("reader", store._reader)):
        assert isinstance(factory, SqliteTransactionFactory)
        with factory.engine.connect() as connection:
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout", "query_only"):
                found[role, name] = connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
    await store.close()
    for role in ("writer", "reader"):
        assert found[role, "journal_mode"] == "wal"
        assert found[role, "synchronous"] == 2
        assert found[role, "foreign_keys"] == 1
        assert found[role, "busy_timeout"] == 0
    assert (found["writer", "query_only"], found["reader", "query_only"]) == (0, 1)


async def test_leases_have_ended_when_the_process_that_held_them_was_killed(tmp_path: Path) -> None:
    """The lock of the file proves that it is dead: nobody waits until they expire."""
    url = f"sqlite:///{tmp_path}/runyard.db"
    holder = await start_holder(url, CLAIM)
    os.kill(holder.pid, signal.SIGKILL)
    await holder.wait()

    store = await open_store(url)
    async with store.begin() as work:
        assert [run.id for run, _ in await claim(work, owner="next")] == ["r1"]
    await store.close()
