"""When the database is away, busy or full: one error of ours, a clear message, no password, and then it goes on."""

import asyncio
import traceback
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from runyard.store import connections, open_store, upgrade
from runyard.store.errors import StoreConflict, StoreError, StoreUnavailable
from tests.contract.store.builders import make_run, make_transition
from tests.integration.store.plans import ask_writer
from tests.postgres import PASSWORD, NoPostgres, Postgres, run_postgres

CANARY = "canary-5f2a91"


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[Postgres]:
    """A server that a test may kill."""
    try:
        with run_postgres() as server:
            yield server
    except NoPostgres as missing:
        pytest.skip(f"no PostgreSQL: {missing}")


def check_words(error: BaseException, *, named: str) -> None:
    """It names the database, and nothing in it or behind it tells the password."""
    everything = "".join(traceback.format_exception(error))
    assert named in str(error)
    for secret in (PASSWORD, PASSWORD.replace("%40", "@")):
        assert secret not in everything
        assert secret not in str(error)


async def test_error_is_clear_when_nobody_listens() -> None:
    url = f"postgresql://runyard:{PASSWORD}@127.0.0.1:9/runyard"
    for attempt in (open_store(url), upgrade(url)):
        with pytest.raises(StoreUnavailable) as failure:
            await attempt
        check_words(failure.value, named="postgresql://runyard@127.0.0.1:9/runyard cannot be reached")


@pytest.mark.parametrize(("old", "new"), [("p%40ss", "wrong-p%40ss"), ("/postgres", "/nothing-here")])
async def test_error_is_clear_when_the_server_refuses(postgres: Postgres, old: str, new: str) -> None:
    with pytest.raises(StoreUnavailable) as failure:
        await open_store(postgres.url().replace(old, new))
    check_words(failure.value, named=f"postgresql://runyard@127.0.0.1:{postgres.port}/")


async def test_store_goes_on_when_the_server_was_killed_and_came_back(own_postgres: Postgres) -> None:
    store = await open_store(own_postgres.create_database())
    async with store.begin() as work:
        await work.runs.add(make_run("before"), [make_transition(1)])
        await work.commit()

    async def write_into_the_void() -> None:
        async with store.begin() as work:
            await work.runs.add(make_run("during"), [make_transition(1)])
            own_postgres.kill()
            await work.commit()

    with pytest.raises(StoreUnavailable) as failure:
        await write_into_the_void()
    check_words(failure.value, named=f"127.0.0.1:{own_postgres.port}")
    with pytest.raises(StoreUnavailable):
        async with store.begin(is_read_only=True) as work:
            await work.runs.find("before", project="p")

    own_postgres.start()
    async with store.begin() as work:
        assert await work.runs.find("before", project="p") is not None
        assert await work.runs.find("during", project="p") is None
        await work.runs.add(make_run("after"), [])
        await work.commit()
    await store.close()


async def test_store_goes_on_when_its_connections_are_ended(postgres: Postgres) -> None:
    url = postgres.create_database()
    store = await open_store(url)

    async def write(run_id: str, *, is_ended: bool) -> None:
        async with store.begin() as work:
            await work.runs.add(make_run(run_id), [])
            if is_ended:
                name = url.rpartition("/")[2]
                postgres.run_sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
            await work.commit()

    with pytest.raises(StoreUnavailable):
        await write("r1", is_ended=True)
    await write("r2", is_ended=False)

    async with store.begin(is_read_only=True) as work:
        assert await work.runs.find("r1", project="p") is None
        assert await work.runs.find("r2", project="p") is not None
    await store.close()


@pytest.mark.parametrize("is_read_only", [True, False])
async def test_nobody_notices_when_connections_are_ended_while_they_rest(
    postgres: Postgres, is_read_only: bool
) -> None:
    url = postgres.create_database()
    store = await open_store(url)
    async with AsyncExitStack() as several:
        for _ in range(3):
            await (await several.enter_async_context(store.begin(is_read_only=is_read_only))).get_meta("x")
    postgres.run_sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        f"WHERE application_name = 'runyard' AND datname = '{url.rpartition('/')[2]}'"
    )
    for _ in range(5):
        async with store.begin(is_read_only=is_read_only) as work:
            assert await work.get_meta("x") is None
    await store.close()


async def test_one_is_refused_and_the_other_goes_on_when_two_wait_for_each_other(postgres: Postgres) -> None:
    store = await open_store(postgres.create_database())
    both_hold_one = asyncio.Barrier(2)

    async def lock_two(first: str, second: str) -> str:
        async with store.begin() as work:
            await work.lock(first)
            await both_hold_one.wait()
            await work.lock(second)
            await work.put_meta(first, second)
            await work.commit()
        return first

    results = await asyncio.gather(lock_two("a", "b"), lock_two("b", "a"), return_exceptions=True)

    [refused] = [result for result in results if isinstance(result, BaseException)]
    [done] = [result for result in results if isinstance(result, str)]
    assert isinstance(refused, StoreConflict)
    async with store.begin(is_read_only=True) as work:
        assert await work.get_meta(done) is not None
        assert await work.get_meta("a" if done == "b" else "b") is None
    await store.close()


async def test_commits_are_kept_when_the_server_is_set_to_forget_them(postgres: Postgres) -> None:
    url = postgres.create_database()
    name = url.rpartition("/")[2]
    postgres.run_sql(f"ALTER DATABASE {name} SET synchronous_commit = off")
    store = await open_store(url)
    # The same connection again and again: what holds it must not end with a transaction.
    for _ in range(3):
        shown = await ask_writer(
            store, lambda connection: connection.exec_driver_sql("SHOW synchronous_commit").scalar_one()
        )
        assert shown == "on"
    await store.close()


async def test_one_state_is_read_and_nothing_written_when_a_connection_for_reading_is_used_again(
    postgres: Postgres,
) -> None:
    store = await open_store(postgres.create_database())
    for _ in range(3):
        transaction = store._reader.make()
        shown = await transaction.run(
            lambda connection: [
                connection.exec_driver_sql(f"SHOW transaction_{name}").scalar_one()
                for name in ("isolation", "read_only")
            ],
            "read",
        )
        await transaction.close()
        assert shown == ["repeatable read", "on"]
    await store.close()


async def test_later_errors_are_ours_too_when_the_connection_was_lost_in_a_unit_of_work(postgres: Postgres) -> None:
    url = postgres.create_database()
    store = await open_store(url)
    async with store.begin() as work:
        await work.put_meta("x", "y")
        name = url.rpartition("/")[2]
        postgres.run_sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await work.get_meta("x")
        with pytest.raises(StoreUnavailable):
            await work.commit()
    await store.close()


async def test_error_is_clear_when_everyone_is_busy(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "WAIT_SECONDS", 0.2)
    store = await open_store(database)
    async with AsyncExitStack() as held:
        for _ in range(1 if database.startswith("sqlite") else connections.WRITERS):
            await (await held.enter_async_context(store.begin())).get_meta("x")
        one_more = await held.enter_async_context(store.begin())
        with pytest.raises(StoreUnavailable, match="busy for too long"):
            await one_more.get_meta("x")
    async with store.begin() as work:
        await work.put_meta("x", "y")
        await work.commit()
    await store.close()


async def test_error_is_clear_and_nothing_is_kept_when_the_disk_is_full(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/runyard.db")
    await ask_writer(store, lambda connection: connection.exec_driver_sql("PRAGMA max_page_count = 100"))

    async def write() -> None:
        async with store.begin() as work:
            await work.put_meta("small", "1")
            await work.runs.add(make_run("r1", request={"x": CANARY * 100_000}), [make_transition(1)])
            await work.commit()

    with pytest.raises(StoreUnavailable, match="full") as failure:
        await write()

    assert CANARY not in "".join(traceback.format_exception(failure.value))
    async with store.begin() as work:
        assert await work.get_meta("small") is None
        await work.put_meta("small", "2")
        await work.commit()
    await store.close()


async def test_values_are_not_told_when_the_driver_cannot_send_them(postgres: Postgres) -> None:
    """A value of the wrong kind is a mistake of ours; what it was must not end up in a log."""
    store = await open_store(postgres.create_database())
    with pytest.raises(StoreError) as failure:
        async with store.begin() as work:
            await work.runs.add(make_run("r1", desired_generation=CANARY), [])
    assert CANARY not in "".join(traceback.format_exception(failure.value))
    await store.close()


async def test_store_goes_on_when_a_statement_took_too_long(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "STATEMENT_SECONDS", 0.3)
    store = await open_store(postgres.create_database())

    async def wait_for_the_lock() -> None:
        async with store.begin() as work:
            await work.lock("p")

    async with store.begin() as holder:
        await holder.lock("p")
        with pytest.raises(StoreUnavailable, match="did not answer in time"):
            await wait_for_the_lock()
    await wait_for_the_lock()
    await store.close()
