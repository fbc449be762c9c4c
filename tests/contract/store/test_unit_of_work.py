"""One transaction: all or nothing, seen by others only when it is committed."""

import asyncio
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runyard.app.list_query import Query
from runyard.app.ports import Store, Unavailable
from runyard.store.errors import ReadOnly
from tests.contract.store.builders import make_audit, make_entity, make_run, make_transition


async def test_free_space_is_that_of_the_disk_when_the_database_is_a_file(
    store: Store, engine: str, tmp_path: Path
) -> None:
    free = await store.find_free_bytes()
    if engine == "postgresql":
        assert free is None
        return
    assert free is not None
    assert 0 < free <= shutil.disk_usage(tmp_path).total
    (tmp_path / "runyard.db").unlink()
    with pytest.raises(Unavailable, match="disk"):
        await store.find_free_bytes()


async def test_nothing_is_kept_when_it_is_left_without_commit(store: Store) -> None:
    async with store.begin() as work:
        await work.runs.add(make_run("r1"), [make_transition(1)])
        await work.put_meta("x", "1")
    async with store.begin(is_read_only=True) as work:
        assert await work.runs.find("r1", project="p") is None
        assert await work.get_meta("x") is None


async def test_nothing_is_kept_when_it_is_left_by_an_error(store: Store) -> None:
    async def fail() -> None:
        async with store.begin() as work:
            await work.runs.add(make_run("r1"), [make_transition(1)])
            await work.audit.add(make_audit())
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        await fail()
    async with store.begin(is_read_only=True) as work:
        assert await work.runs.find("r1", project="p") is None
        assert await work.audit.list_entries() == []


@pytest.mark.parametrize("has_work", [True, False])
async def test_work_is_begun_meanwhile_when_a_unit_of_work_is_committed(store: Store, has_work: bool) -> None:
    done: list[str] = []
    async with store.begin() as work:
        if has_work:
            await work.put_meta("x", "1")
        await work.commit(meanwhile=lambda: done.append("meanwhile"))
        done.append("committed")
    assert done == ["meanwhile", "committed"]


async def test_everything_is_kept_together_when_it_is_committed(store: Store) -> None:
    async with store.begin() as work:
        await work.runs.add(make_run("r1"), [make_transition(1)])
        await work.audit.add(make_audit())
        await work.metrics.put("run", "r1", "loss", 1.0, project="p")
        await work.commit()
    async with store.begin(is_read_only=True) as work:
        assert await work.runs.find("r1", project="p") is not None
        assert len(await work.runs.list_transitions("r1")) == 1
        assert len(await work.audit.list_entries()) == 1
        assert await work.metrics.list_values("run", "r1", project="p") == {"loss": 1.0}


async def test_mistake_is_told_when_it_is_used_after_its_end(store: Store) -> None:
    async with store.begin() as work:
        await work.commit()
        with pytest.raises(RuntimeError, match="has ended"):
            await work.runs.find("r1", project="p")
        with pytest.raises(RuntimeError, match="has ended"):
            await work.commit()
    with pytest.raises(RuntimeError, match="has ended"):
        await work.put_meta("x", "1")


async def test_own_writes_are_seen_and_others_are_not_when_they_are_not_committed(store: Store) -> None:
    async with store.begin() as writer:
        await writer.runs.add(make_run("r1"), [])
        assert await writer.runs.find("r1", project="p") is not None
        async with store.begin(is_read_only=True) as reader:
            assert await reader.runs.find("r1", project="p") is None
        await writer.commit()


async def test_reader_sees_one_state_when_others_commit_meanwhile(store: Store) -> None:
    async with store.begin(is_read_only=True) as reader:
        assert (await reader.entities.find_page(Query(type="function"))).total == 0
        async with store.begin() as writer:
            await writer.entities.add(make_entity("f1"))
            await writer.commit()
        assert (await reader.entities.find_page(Query(type="function"))).total == 0
        assert await reader.entities.find("function", "f1", project="p") is None
    async with store.begin(is_read_only=True) as reader:
        assert await reader.entities.find("function", "f1", project="p") is not None


async def test_write_is_refused_when_it_was_begun_for_reading(store: Store) -> None:
    async with store.begin(is_read_only=True) as work:
        with pytest.raises(ReadOnly):
            await work.runs.add(make_run("r1"), [])
        with pytest.raises(ReadOnly):
            await work.lock("p")
        assert await work.runs.find("r1", project="p") is None


async def test_clock_is_aware_and_goes_forward_when_it_is_read(store: Store) -> None:
    async with store.begin(is_read_only=True) as work:
        first = second = await work.read_clock()
        async with asyncio.timeout(60):  # also within a transaction
            while second == first:
                second = await work.read_clock()
    assert first.utcoffset() == timedelta(0)
    assert second > first
    assert abs(datetime.now(UTC) - second) < timedelta(minutes=1)


async def test_second_waits_when_a_name_is_locked(store: Store) -> None:
    """Each reads a number and writes the next: without the lock, some would read the same."""

    async def count_up() -> None:
        async with store.begin() as work:
            await work.lock("p")
            number = int(await work.get_meta("number") or "0")
            await asyncio.sleep(0.002)
            await work.put_meta("number", str(number + 1))
            await work.commit()

    await asyncio.gather(*(count_up() for _ in range(20)))

    async with store.begin(is_read_only=True) as work:
        assert await work.get_meta("number") == "20"


async def test_exclusive_lock_waits_when_a_shared_one_is_held(store: Store) -> None:
    begun = asyncio.Event()

    async def hold() -> None:
        async with store.begin() as work:
            await work.lock_shared("p")
            begun.set()
            await asyncio.sleep(0.05)
            await work.put_meta("held", "yes")
            await work.commit()

    async def lock() -> str | None:
        await begun.wait()
        async with store.begin() as work:
            await work.lock("p")
            return await work.get_meta("held")

    _, seen = await asyncio.gather(hold(), lock())
    assert seen == "yes"


async def test_store_goes_on_when_units_of_work_are_cancelled(store: Store) -> None:
    async def write(number: int) -> None:
        async with store.begin() as work:
            await work.runs.add(make_run(f"r{number}"), [make_transition(1)])
            await work.audit.add(make_audit(id=f"r{number}"))
            await work.commit()

    tasks = [asyncio.create_task(write(number)) for number in range(60)]
    for number, task in enumerate(tasks):
        await asyncio.sleep(0.001)
        if number % 2:
            task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert {type(result) for result in results} <= {type(None), asyncio.CancelledError}
    assert sum(result is None for result in results) >= 30
    async with store.begin() as work:
        await work.runs.add(make_run("last"), [])
        await work.commit()
    async with store.begin(is_read_only=True) as work:
        for number, result in enumerate(results):
            run = await work.runs.find(f"r{number}", project="p")
            assert run is not None or result is not None
            assert len(await work.runs.list_transitions(f"r{number}")) == (run is not None)
        audited = await work.audit.list_entries(limit=100)
        found = await work.runs.find_page(Query(type="run", size=100))
    assert {entry.id for _, entry in audited} == {run.id for run in found.content} - {"last"}


async def test_close_returns_at_once_when_the_store_is_closed_already(store: Store) -> None:
    async with store.begin() as work:
        await work.put_meta("x", "y")
        await work.commit()
    async with asyncio.timeout(4):
        await asyncio.gather(store.close(), store.close())
        await store.close()
