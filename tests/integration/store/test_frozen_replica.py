"""One replica freezes inside a transaction and holds its row locks: on PostgreSQL the others go on."""

import asyncio
from dataclasses import replace
from datetime import timedelta

from runyard.app.model import Run
from runyard.app.ports import UnitOfWork
from runyard.store import SqlStore
from tests.contract.store.builders import add_due, claim, make_run

LONG = timedelta(minutes=5)


async def get(work: UnitOfWork) -> Run:
    run = await work.runs.find_by_uid("r1")
    assert run is not None
    return run


async def test_others_go_on_when_one_replica_is_frozen_inside_a_transaction(pair: tuple[SqlStore, SqlStore]) -> None:
    """Nobody waits for its rows; they are left out, and are there again once it is gone."""
    names = ["r1", "r2", "r3"]
    first, last = pair
    async with first.begin() as work:
        for name in names:
            await add_due(work, make_run(name))
        await work.commit()
    async with first.begin() as frozen:
        run = await get(frozen)
        await frozen.runs.update(run, replace(run, message="m"))
        async with asyncio.timeout(20), last.begin() as work:
            assert await work.runs.wake(names) == ["r2", "r3"]
            assert sorted(await work.runs.list_existing(names)) == names
            assert [one.id for one in await work.runs.lock_observed(names)] == ["r2", "r3"]
            assert [one.id for one, _ in await claim(work, owner="me")] == ["r2", "r3"]
            assert await work.runs.renew_leases("me", lease_for=LONG) == 2
            await work.commit()
    async with asyncio.timeout(20), last.begin() as work:
        assert await work.runs.wake(["r1"]) == ["r1"]
        assert [one.id for one in await work.runs.lock_observed(names)] == names
        assert [one.id for one, _ in await claim(work)] == ["r1"]


async def test_leases_are_kept_and_ended_when_a_leased_row_is_locked_by_a_frozen_replica(
    pair: tuple[SqlStore, SqlStore],
) -> None:
    first, last = pair
    async with first.begin() as work:
        for name in ("r1", "r2"):
            await add_due(work, make_run(name))
        await claim(work, owner="me")
        await work.commit()
    async with first.begin() as frozen:
        run = await get(frozen)
        await frozen.runs.update(run, replace(run, message="m"))
        async with asyncio.timeout(20), last.begin() as work:
            assert await work.runs.renew_leases("me", lease_for=LONG) == 1
            assert await work.runs.end_leases("me") == 1
            await work.commit()
    async with last.begin() as work:
        assert await work.runs.end_leases("me") == 1
