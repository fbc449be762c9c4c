"""The queue: what is due, who has it, and for how long, by the database's clock."""

from dataclasses import replace
from datetime import timedelta

import pytest

from runyard.app.ports import Stale, Store
from tests.contract.store.builders import NOON, after, make_run, make_transition, wait_until_past

LONG = timedelta(minutes=5)


async def test_oldest_due_come_first_when_more_are_due_than_wanted(store: Store) -> None:
    async with store.begin() as work:
        for number in (3, 1, 2, 0):
            await work.runs.add(make_run(f"r{number}", due_at=after(number)), [])
        await work.runs.add(make_run("a-tie", due_at=after(1)), [])
        first = await work.runs.claim_due(owner="me", limit=3, lease_for=LONG)
        second = await work.runs.claim_due(owner="me", limit=3, lease_for=LONG)
        third = await work.runs.claim_due(owner="me", limit=3, lease_for=LONG)
        await work.commit()

    assert [run.id for run, _ in first] == ["r0", "a-tie", "r1"]
    assert [run.id for run, _ in second] == ["r2", "r3"]
    assert third == []
    assert [lease.run_uid for _, lease in first] == ["r0", "a-tie", "r1"]


async def test_claimed_run_is_whole_and_its_revision_stays_when_it_is_claimed(store: Store) -> None:
    run = make_run("r1", metadata={"labels": ["x"]})
    async with store.begin() as work:
        await work.runs.add(run, [])
        [(claimed, lease)] = await work.runs.claim_due(owner="me", limit=9, lease_for=LONG)
        now = await work.read_clock()
        await work.commit()

    assert claimed == run
    assert now < lease.until <= now + LONG
    async with store.begin(is_read_only=True) as work:
        assert await work.runs.find("r1", project="p") == run


async def test_nothing_is_claimed_when_nothing_is_due_yet(store: Store) -> None:
    async with store.begin() as work:
        now = await work.read_clock()
        await work.runs.add(make_run("later", due_at=now + LONG), [])
        await work.runs.add(make_run("never", due_at=None), [])
        assert await work.runs.claim_due(owner="me", limit=9, lease_for=LONG) == []


async def test_claim_is_undone_when_the_unit_of_work_is_left(store: Store) -> None:
    async with store.begin() as work:
        await work.runs.add(make_run("r1"), [])
        await work.commit()
    async with store.begin() as work:
        assert await work.runs.claim_due(owner="a", limit=1, lease_for=LONG)
    async with store.begin() as work:
        assert await work.runs.claim_due(owner="b", limit=1, lease_for=LONG)


async def test_run_can_be_claimed_again_when_its_lease_has_ended(store: Store) -> None:
    async with store.begin() as work:
        await work.runs.add(make_run("r1"), [])
        [(_, first)] = await work.runs.claim_due(owner="a", limit=1, lease_for=timedelta(milliseconds=50))
        await work.commit()
    await wait_until_past(store, first.until)
    async with store.begin() as work:
        [(_, second)] = await work.runs.claim_due(owner="a", limit=1, lease_for=LONG)
        await work.commit()
    assert first.token != second.token


async def test_lease_lasts_longer_when_it_is_renewed(store: Store) -> None:
    async with store.begin() as work:
        await work.runs.add(make_run("r1"), [])
        [(run, lease)] = await work.runs.claim_due(owner="a", limit=1, lease_for=timedelta(seconds=30))
        await work.commit()
    async with store.begin() as work:
        renewed = await work.runs.renew(lease, lease_for=LONG)
        await work.commit()

    assert renewed.token == lease.token
    assert renewed.until > lease.until
    async with store.begin() as work:
        await work.runs.replace(run, lease=renewed)
        assert await work.runs.claim_due(owner="b", limit=1, lease_for=LONG) == []


async def test_renewed_lease_ends_sooner_when_less_is_asked_for(store: Store) -> None:
    async with store.begin() as work:
        await work.runs.add(make_run("r1"), [])
        [(_, lease)] = await work.runs.claim_due(owner="a", limit=1, lease_for=LONG)
        renewed = await work.runs.renew(lease, lease_for=timedelta(milliseconds=20))
        await work.commit()
    await wait_until_past(store, renewed.until)
    async with store.begin() as work:
        with pytest.raises(Stale):
            await work.runs.renew(renewed, lease_for=LONG)
        assert await work.runs.claim_due(owner="b", limit=1, lease_for=LONG)


@pytest.mark.parametrize("is_due_again", [True, False])
async def test_run_is_due_when_its_holder_said_so_at_release(store: Store, is_due_again: bool) -> None:
    async with store.begin() as work:
        await work.runs.add(make_run("r1"), [])
        [(_, lease)] = await work.runs.claim_due(owner="a", limit=1, lease_for=LONG)
        due_at = NOON if is_due_again else None
        await work.runs.release(lease, due_at=due_at)
        await work.commit()

    async with store.begin() as work:
        found = await work.runs.find("r1", project="p")
        assert found is not None
        assert found.due_at == due_at
        assert found.revision == 1
        assert bool(await work.runs.claim_due(owner="b", limit=1, lease_for=LONG)) is is_due_again


async def test_wake_up_is_not_lost_when_a_user_writes_while_the_run_is_leased(store: Store) -> None:
    async with store.begin() as work:
        await work.runs.add(make_run("r1", due_at=after(-60)), [])
        [(run, lease)] = await work.runs.claim_due(owner="loop", limit=1, lease_for=LONG)
        await work.commit()
    async with store.begin() as work:
        await work.runs.replace(replace(run, desired="stop", desired_generation=2, due_at=NOON))
        await work.commit()
    async with store.begin() as work:
        await work.runs.release(lease, due_at=await work.read_clock() + LONG)
        await work.commit()

    async with store.begin() as work:
        [(again, _)] = await work.runs.claim_due(owner="loop", limit=1, lease_for=LONG)
    assert again.desired == "stop"
    assert again.due_at == NOON


async def test_holder_decides_when_only_the_holder_wrote(store: Store) -> None:
    async with store.begin() as work:
        await work.runs.add(make_run("r1"), [])
        [(run, lease)] = await work.runs.claim_due(owner="loop", limit=1, lease_for=LONG)
        await work.runs.replace(run, lease=lease, transitions=[make_transition(1)])
        await work.runs.release(lease, due_at=None)
        assert await work.runs.claim_due(owner="loop", limit=1, lease_for=LONG) == []


async def test_run_is_due_at_once_when_it_is_nudged_whoever_holds_it(store: Store) -> None:
    async with store.begin() as work:
        later = await work.read_clock() + LONG
        for name, due_at in (("held", NOON), ("idle", None), ("later", later), ("other", later)):
            await work.runs.add(make_run(name, due_at=due_at), [])
        [(_, lease)] = await work.runs.claim_due(owner="loop", limit=1, lease_for=LONG)
        await work.runs.nudge(["held", "idle", "later", "nobody"])
        await work.runs.nudge([])
        await work.runs.release(lease, due_at=later)
        await work.commit()

    async with store.begin() as work:
        claimed = [run for run, _ in await work.runs.claim_due(owner="loop", limit=9, lease_for=LONG)]
    assert {run.id for run in claimed} == {"held", "idle", "later"}
    assert {run.revision for run in claimed} == {1}


async def test_overdue_run_keeps_its_turn_when_it_is_nudged(store: Store) -> None:
    """Otherwise a run that changes all the time would go to the end of the queue each time, and starve."""
    async with store.begin() as work:
        await work.runs.add(make_run("r1", due_at=NOON), [])
        await work.runs.nudge(["r1"])
        found = await work.runs.find("r1", project="p")
    assert found is not None
    assert found.due_at == NOON


async def test_run_rests_until_it_is_due_when_its_nudge_was_claimed(store: Store) -> None:
    """Otherwise whoever released it would get it back at once, for ever."""
    async with store.begin() as work:
        later = await work.read_clock() + LONG
        await work.runs.add(make_run("r1", due_at=None), [])
        await work.runs.nudge(["r1"])
        [(_, lease)] = await work.runs.claim_due(owner="loop", limit=1, lease_for=LONG)
        await work.runs.release(lease, due_at=later)
        await work.commit()

    async with store.begin() as work:
        assert await work.runs.claim_due(owner="loop", limit=1, lease_for=LONG) == []
        found = await work.runs.find("r1", project="p")
    assert found is not None
    assert found.due_at == later


async def test_every_run_is_in_one_shard_when_replicas_share_the_queue(store: Store) -> None:
    names = {f"r{number}" for number in range(60)}
    async with store.begin() as work:
        for name in names:
            await work.runs.add(make_run(name), [])
        shards = [
            {run.id for run, _ in await work.runs.claim_due(owner=str(n), limit=99, lease_for=LONG, shard=(n, 3))}
            for n in range(3)
        ]
        await work.commit()

    assert set.union(*shards) == names
    assert sum(map(len, shards)) == len(names)
    assert all(len(shard) > 5 for shard in shards)


async def test_lease_falls_when_the_run_is_deleted(store: Store) -> None:
    async with store.begin() as work:
        await work.runs.add(make_run("r1"), [])
        [(run, lease)] = await work.runs.claim_due(owner="a", limit=1, lease_for=LONG)
        await work.runs.delete(["r1"])
        await work.runs.add(make_run("r1"), [])
        with pytest.raises(Stale):
            await work.runs.replace(run, lease=lease)


async def test_only_that_run_is_meant_when_projects_use_the_same_id(store: Store) -> None:
    async with store.begin() as work:
        later = await work.read_clock() + LONG
        await work.runs.add(make_run("r1", uid="u1", due_at=later), [])
        await work.runs.add(make_run("r1", uid="u2", project="q", due_at=later), [])
        await work.runs.nudge(["u2"])
        [(run, lease)] = await work.runs.claim_due(owner="loop", limit=9, lease_for=LONG)
        assert (run.project, lease.run_uid) == ("q", "u2")
        await work.runs.replace(run, lease=lease)
        with pytest.raises(Stale):
            await work.runs.replace(make_run("r1", uid="u1"), lease=lease)
        await work.runs.release(lease, due_at=None)
        assert await work.runs.claim_due(owner="loop", limit=9, lease_for=LONG) == []
