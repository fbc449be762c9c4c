"""The queue: what is due, who has it, and for how long, by the database's clock."""

from dataclasses import replace
from datetime import timedelta

import pytest

from runyard.app.model import Run
from runyard.app.ports import OVERDUE, RunUpdate, Stale, Store, UnitOfWork
from runyard.domain.lifecycle import State
from runyard.domain.outcomes import Lane
from tests.contract.store.builders import (
    NOON,
    add_due,
    after,
    claim,
    make_run,
    make_transition,
    set_columns,
    wait_until_past,
)

LONG = timedelta(minutes=5)


async def test_oldest_due_come_first_when_more_are_due_than_wanted(store: Store) -> None:
    async with store.begin() as work:
        for number in (3, 1, 2, 0):
            await add_due(work, make_run(f"r{number}"), after(number))
        await add_due(work, make_run("a-tie"), after(1))
        first = await claim(work, owner="me", limit=3)
        second = await claim(work, owner="me", limit=3)
        third = await claim(work, owner="me", limit=3)
        await work.commit()

    assert [run.id for run, _ in first] == ["r0", "a-tie", "r1"]
    assert [run.id for run, _ in second] == ["r2", "r3"]
    assert third == []
    assert [lease.run_uid for _, lease in first] == ["r0", "a-tie", "r1"]


async def test_claimed_run_is_whole_and_its_revision_stays_when_it_is_claimed(store: Store) -> None:
    run = make_run("r1", metadata={"labels": ["x"]})
    async with store.begin() as work:
        run = await add_due(work, run)
        [(claimed, lease)] = await claim(work, owner="me", limit=9)
        now = await work.read_clock()
        await work.commit()

    assert claimed == run
    assert now < lease.until <= now + LONG
    async with store.begin(is_read_only=True) as work:
        assert await work.runs.find("r1", project="p") == run


async def test_nothing_is_claimed_when_nothing_is_due_yet(store: Store) -> None:
    async with store.begin() as work:
        now = await work.read_clock()
        await add_due(work, make_run("later"), now + LONG)
        await add_due(work, make_run("never"), None)
        assert await claim(work, owner="me", limit=9) == []


async def test_next_due_is_the_earliest_that_is_not_due_yet_when_runs_wait(store: Store) -> None:
    async with store.begin() as work:
        assert await work.runs.find_next_due() is None
        now = await work.read_clock()
        await add_due(work, make_run("due"), now - LONG)
        await add_due(work, make_run("never"), None)
        assert await work.runs.find_next_due() is None
        await add_due(work, make_run("last"), now + 2 * LONG)
        await add_due(work, make_run("next", state="RUNNING"), now + LONG)
        due_in = await work.runs.find_next_due()
    assert due_in is not None
    assert timedelta(0) < due_in <= LONG


async def test_claim_is_undone_when_the_unit_of_work_is_left(store: Store) -> None:
    async with store.begin() as work:
        await add_due(work, make_run("r1"))
        await work.commit()
    async with store.begin() as work:
        assert await claim(work, owner="a", limit=1)
    async with store.begin() as work:
        assert await claim(work, owner="b", limit=1)


async def test_run_can_be_claimed_again_when_its_lease_has_ended(store: Store) -> None:
    async with store.begin() as work:
        await add_due(work, make_run("r1"))
        [(_, first)] = await claim(work, owner="a", limit=1, lease_for=timedelta(milliseconds=50))
        await work.commit()
    await wait_until_past(store, first.until)
    async with store.begin() as work:
        [(_, second)] = await claim(work, owner="a", limit=1)
        await work.commit()
    assert first.token != second.token


async def test_lease_lasts_longer_when_it_is_renewed(store: Store) -> None:
    async with store.begin() as work:
        await add_due(work, make_run("r1"))
        [(run, lease)] = await claim(work, owner="a", limit=1, lease_for=timedelta(milliseconds=1500))
        assert await work.runs.renew_leases("a", lease_for=LONG) == 1
        await work.commit()
    await wait_until_past(store, lease.until)
    async with store.begin() as work:
        await work.runs.update(run, replace(run, message="m"), lease=lease)
        assert await claim(work, owner="b", limit=1) == []


async def test_renewed_lease_ends_sooner_when_less_is_asked_for(store: Store) -> None:
    async with store.begin() as work:
        await add_due(work, make_run("r1"))
        [(run, lease)] = await claim(work, owner="a", limit=1)
        assert await work.runs.renew_leases("a", lease_for=timedelta(milliseconds=20)) == 1
        ends_at = await work.read_clock() + timedelta(milliseconds=20)
        await work.commit()
    await wait_until_past(store, ends_at)
    async with store.begin() as work:
        assert await work.runs.renew_leases("a", lease_for=LONG) == 0
        with pytest.raises(Stale):
            await work.runs.update(run, run, lease=lease)
        assert await claim(work, owner="b", limit=1)


@pytest.mark.parametrize("is_due_again", [True, False])
async def test_run_is_due_when_its_holder_said_so_at_release(store: Store, is_due_again: bool) -> None:
    async with store.begin() as work:
        await add_due(work, make_run("r1"))
        [(_, lease)] = await claim(work, owner="a", limit=1)
        await work.runs.release(lease, due_in=timedelta(0) if is_due_again else None)
        now = await work.read_clock()
        await work.commit()

    async with store.begin() as work:
        found = await work.runs.find("r1", project="p")
        assert found is not None
        assert found.due_at is None or now - timedelta(seconds=5) < found.due_at <= now
        assert found.revision == 1
        assert bool(await claim(work, owner="b", limit=1)) is is_due_again


async def test_wake_up_is_not_lost_when_a_user_writes_while_the_run_is_leased(store: Store) -> None:
    async with store.begin() as work:
        await add_due(work, make_run("r1"), after(-60))
        [(run, lease)] = await claim(work, owner="loop", limit=1)
        await work.commit()
    async with store.begin() as work:
        stopping = replace(run, desired="stop", desired_generation=2)
        await work.runs.update(run, stopping, due_in=timedelta(0))
        await work.commit()
    async with store.begin() as work:
        await work.runs.release(lease, due_in=LONG)
        await work.commit()

    async with store.begin() as work:
        [(again, _)] = await claim(work, owner="loop", limit=1)
    assert again.desired == "stop"
    assert again.due_at == after(-60)


async def test_holder_decides_when_only_the_holder_wrote(store: Store) -> None:
    async with store.begin() as work:
        await add_due(work, make_run("r1"))
        [(run, lease)] = await claim(work, owner="loop", limit=1)
        await work.runs.update(run, run, lease=lease, transitions=[make_transition(1)])
        await work.runs.release(lease, due_in=None)
        assert await claim(work, owner="loop", limit=1) == []


async def test_run_is_due_at_once_when_it_is_woken_whoever_holds_it(store: Store) -> None:
    async with store.begin() as work:
        later = await work.read_clock() + LONG
        for name, due_at in (("held", NOON), ("idle", None), ("later", later), ("other", later)):
            await add_due(work, make_run(name), due_at)
        [(_, lease)] = await claim(work, owner="loop", limit=1)
        assert sorted(await work.runs.wake(["held", "idle", "later", "nobody"])) == ["held", "idle", "later"]
        assert await work.runs.wake([]) == []
        assert sorted(await work.runs.list_existing(["held", "idle", "nobody"])) == ["held", "idle"]
        assert await work.runs.list_existing([]) == []
        await work.runs.release(lease, due_in=LONG)
        await work.commit()

    async with store.begin() as work:
        claimed = [run for run, _ in await claim(work, owner="loop", limit=9)]
    assert {run.id for run in claimed} == {"held", "idle", "later"}
    assert {run.revision for run in claimed} == {1}


async def test_overdue_run_keeps_its_turn_when_it_is_woken(store: Store) -> None:
    """Otherwise a run that changes all the time would go to the end of the queue each time, and starve."""
    async with store.begin() as work:
        await add_due(work, make_run("r1"), NOON)
        await work.runs.wake(["r1"])
        found = await work.runs.find("r1", project="p")
    assert found is not None
    assert found.due_at == NOON


async def test_run_rests_until_it_is_due_when_its_wake_up_was_claimed(store: Store) -> None:
    """Otherwise whoever released it would get it back at once, for ever."""
    async with store.begin() as work:
        later = await work.read_clock() + LONG
        await add_due(work, make_run("r1"), None)
        await work.runs.wake(["r1"])
        [(_, lease)] = await claim(work, owner="loop", limit=1)
        await work.runs.release(lease, due_in=LONG)
        await work.commit()

    async with store.begin() as work:
        assert await claim(work, owner="loop", limit=1) == []
        found = await work.runs.find("r1", project="p")
    assert found is not None
    assert found.due_at is not None
    assert later <= found.due_at < later + timedelta(seconds=30)


async def test_every_run_is_in_one_shard_when_replicas_share_the_queue(store: Store) -> None:
    names = {f"r{number}" for number in range(60)}
    async with store.begin() as work:
        for name in names:
            await work.runs.add(make_run(name), [], due_in=timedelta(0))
        shards = [{run.id for run, _ in await claim(work, owner=str(n), limit=99, shard=(n, 3))} for n in range(3)]
        await work.commit()

    assert set.union(*shards) == names
    assert sum(map(len, shards)) == len(names)
    assert all(len(shard) > 5 for shard in shards)


async def test_lease_falls_when_the_run_is_deleted(store: Store) -> None:
    async with store.begin() as work:
        await add_due(work, make_run("r1"))
        [(run, lease)] = await claim(work, owner="a", limit=1)
        await work.runs.delete(["r1"])
        await add_due(work, make_run("r1"))
        with pytest.raises(Stale):
            await work.runs.update(run, run, lease=lease)


async def test_only_that_run_is_meant_when_projects_use_the_same_id(store: Store) -> None:
    async with store.begin() as work:
        later = await work.read_clock() + LONG
        await add_due(work, make_run("r1", uid="u1"), later)
        await add_due(work, make_run("r1", uid="u2", project="q"), later)
        await work.runs.wake(["u2"])
        [(run, lease)] = await claim(work, owner="loop", limit=9)
        assert (run.project, lease.run_uid) == ("q", "u2")
        await work.runs.update(run, run, lease=lease)
        other = make_run("r1", uid="u1")
        with pytest.raises(Stale):
            await work.runs.update(other, other, lease=lease)
        await work.runs.release(lease, due_in=None)
        assert await claim(work, owner="loop", limit=9) == []


async def get(work: UnitOfWork, run_uid: str = "r1") -> Run:
    run = await work.runs.find_by_uid(run_uid)
    assert run is not None
    return run


async def test_each_lane_has_its_own_limit_when_runs_are_claimed(store: Store) -> None:
    states = {"stop": "STOP", "watch": "RUNNING", "create": "READY", "settle": "COMPLETED"}
    async with store.begin() as work:
        for name, state in states.items():
            for number in (2, 1):
                desired = "stop" if name == "stop" else "run"
                await add_due(work, make_run(f"{name}-{number}", state=state, desired=desired), after(number))
        limits = {Lane.SETTLE: 1, Lane.CREATE: 2, Lane.WATCH: 0, Lane.STOP: 1}
        claimed = await work.runs.claim_due(owner="me", limits=limits, lease_for=LONG)
        assert [run.id for run, _ in claimed] == ["stop-1", "create-1", "create-2", "settle-1"]
        assert await work.runs.claim_due(owner="me", limits={Lane.CREATE: 9}, lease_for=LONG) == []
        assert await work.runs.claim_due(owner="me", limits={}, lease_for=LONG) == []
        claimed = await claim(work)
    assert [run.id for run, _ in claimed] == ["stop-2", "watch-1", "watch-2", "settle-2"]
    assert [run.lane for run, _ in claimed] == [Lane.STOP, Lane.WATCH, Lane.WATCH, Lane.SETTLE]


async def test_lane_follows_when_state_or_wish_changes(store: Store) -> None:
    async with store.begin() as work:
        run = await work.runs.add(make_run("r1"), [], due_in=timedelta(0))
        for changed, lane in (
            (replace(run, state="RUNNING"), Lane.WATCH),
            (replace(run, state="RUNNING", desired="stop"), Lane.STOP),
            (replace(run, state="STOPPED", desired="stop"), Lane.SETTLE),
            (replace(run, state="RESUME", desired="run"), Lane.CREATE),
            (replace(run, state="DELETING", desired="delete"), Lane.STOP),
        ):
            run = await get(work)
            await work.runs.update(run, replace(run, state=changed.state, desired=changed.desired))
            [(_, lease)] = await work.runs.claim_due(owner="me", limits={lane: 1}, lease_for=LONG)
            await work.runs.release(lease, due_in=timedelta(0))


async def test_place_is_stored_with_the_claim_when_an_engine_may_start_the_run(store: Store) -> None:
    async with store.begin() as work:
        for name, state in (("create", "READY"), ("watch", "RUNNING"), ("stop", "DELETING"), ("settle", "ERROR")):
            await work.runs.add(make_run(name, state=state), [], due_in=timedelta(0))
        await work.runs.add(make_run("local", is_local=True), [], due_in=timedelta(0))
        await work.runs.add(make_run("known", place="here/1", revision=5), [], due_in=timedelta(0))
        claimed = {run.id: (run.place, run.revision) for run, _ in await claim(work, place="here/1")}
        await work.commit()

    assert claimed == {
        "create": ("here/1", 2),
        "watch": ("here/1", 2),
        "stop": (None, 1),
        "settle": (None, 1),
        "local": (None, 1),
        "known": ("here/1", 5),
    }
    async with store.begin() as work:
        assert (await get(work, "create")).place == "here/1"
        stale = make_run("create")
        with pytest.raises(Stale):
            await work.runs.update(stale, replace(stale, state="STOPPED"))


@pytest.mark.parametrize("place", ["here/1", None])
async def test_run_of_another_place_is_claimed_when_it_is_overdue(store: Store, place: str | None) -> None:
    async with store.begin() as work:
        now = await work.read_clock()
        await add_due(work, make_run("due", place="there/2"), now - OVERDUE / 2)
        await add_due(work, make_run("overdue", place="there/2"), now - 2 * OVERDUE)
        claimed = await claim(work, place=place)
        assert [(run.id, run.place, run.revision) for run, _ in claimed] == [("overdue", "there/2", 1)]


@pytest.mark.parametrize("place", ["here/1", None])
async def test_overdue_run_is_left_alone_when_a_live_replica_serves_its_place(store: Store, place: str | None) -> None:
    async with store.begin() as work:
        now = await work.read_clock()
        await add_due(work, make_run("overdue", place="there/2"), now - 2 * OVERDUE)
        await work.replicas.beat("busy", "there/2", LONG)
        assert await claim(work, place=place) == []
        await work.replicas.leave("busy")
        assert [run.id for run, _ in await claim(work, place=place)] == ["overdue"]


async def test_new_run_is_left_to_others_when_only_they_have_an_engine(store: Store) -> None:
    async with store.begin() as work:
        await add_due(work, make_run("new"))
        await work.replicas.beat("bare", None, LONG)
        await work.replicas.beat("busy", "there/2", LONG)
        assert await claim(work, place=None) == []
        await work.replicas.leave("busy")
        assert [run.id for run, _ in await claim(work, place=None)] == ["new"]


async def test_run_of_another_shard_is_claimed_when_it_is_overdue(store: Store) -> None:
    names = {f"r{number}" for number in range(20)}
    async with store.begin() as work:
        now = await work.read_clock()
        for name in names:
            await add_due(work, make_run(name), now - OVERDUE / 2)
        first = {run.id for run, _ in await claim(work, limit=99, shard=(0, 2))}
        assert set() < first < names
        for name in names - first:
            await set_columns(work, name, due_at=now - 2 * OVERDUE)
        assert {run.id for run, _ in await claim(work, limit=99, shard=(0, 2))} == names - first


@pytest.mark.parametrize("due_in", [timedelta(minutes=5), None])
@pytest.mark.parametrize("is_held", [True, False])
async def test_wake_up_stays_when_the_next_write_says_later(
    store: Store, due_in: timedelta | None, is_held: bool
) -> None:
    """A write that was based on a run as it was before must not overwrite that somebody made it due since."""
    async with store.begin() as work:
        await add_due(work, make_run("r1"))
        [(run, lease)] = await claim(work)
        if not is_held:
            await work.runs.release(lease, due_in=LONG)
            run = await get(work)
        await work.commit()
    async with store.begin() as work:
        assert await work.runs.wake(["r1"]) == ["r1"]
        now = await work.read_clock()
        await work.commit()
    async with store.begin() as work:
        held = lease if is_held else None
        written = await work.runs.update(
            run, replace(run, state="RUNNING"), lease=held, is_lease_ended=is_held, due_in=due_in
        )
        await work.commit()

    assert written.due_at is not None
    assert written.due_at <= now
    async with store.begin() as work:
        [(again, _)] = await claim(work)
    assert again == written


async def test_wake_up_stays_when_a_write_says_nothing_about_it(store: Store) -> None:
    async with store.begin() as work:
        run = await work.runs.add(make_run("r1"), [])
        assert await work.runs.wake(["r1"]) == ["r1"]
        written = await work.runs.update(run, replace(run, message="m"))
        assert written.due_at is not None
        assert await claim(work)


async def test_wake_up_of_a_user_stays_when_the_holder_of_the_lease_ends_it(store: Store) -> None:
    async with store.begin() as work:
        await add_due(work, make_run("r1"))
        [(run, lease)] = await claim(work)
        deleting = await work.runs.update(run, replace(run, state="DELETING"), due_in=timedelta(seconds=30))
        await work.runs.release(lease, due_in=None)
        assert (await get(work)).due_at == deleting.due_at


async def test_run_is_due_later_when_nobody_woke_it(store: Store) -> None:
    async with store.begin() as work:
        run = await add_due(work, make_run("r1"))
        now = await work.read_clock()
        later = await work.runs.update(run, replace(run, state="RUNNING"), due_in=LONG)
        assert later.due_at is not None
        assert now + LONG <= later.due_at < now + 2 * LONG
        never = await work.runs.update(later, replace(later, state="ERROR"), due_in=None)
        assert never.due_at is None
        assert await get(work) == never


async def test_lease_ends_in_the_same_write_when_the_holder_says_so(store: Store) -> None:
    async with store.begin() as work:
        await add_due(work, make_run("r1"))
        [(run, lease)] = await claim(work)
        released = await work.runs.update(run, replace(run, state="PENDING"), lease=lease, is_lease_ended=True)
        with pytest.raises(Stale):
            await work.runs.update(released, released, lease=lease)
        [(again, _)] = await claim(work)
    assert again == released


async def test_revision_stays_when_only_the_lease_or_the_due_time_changes(store: Store) -> None:
    async with store.begin() as work:
        await add_due(work, make_run("r1"))
        [(run, lease)] = await claim(work)
        same = await work.runs.update(run, run, lease=lease, is_lease_ended=True, due_in=None)
        assert same == replace(run, due_at=None)
        assert await get(work) == same
        with pytest.raises(Stale):
            await work.runs.update(replace(run, revision=2), replace(run, revision=2))


async def test_leases_of_one_owner_end_when_it_starts_or_stops_in_order(store: Store) -> None:
    async with store.begin() as work:
        for name in ("a", "b", "c"):
            await add_due(work, make_run(name), after(ord(name)))
        [(run_a, lease_a)] = await claim(work, owner="first", limit=1)
        [(run_b, lease_b)] = await claim(work, owner="second", limit=1)
        assert await work.runs.end_leases("first") == 1
        assert [run.id for run, _ in await claim(work, owner="third")] == ["a", "c"]
        await work.runs.update(run_b, run_b, lease=lease_b)
        with pytest.raises(Stale):
            await work.runs.update(run_a, run_a, lease=lease_a)
        assert await work.runs.end_leases("nobody") == 0
        assert await work.runs.end_leases(None) == 3
        assert [run.id for run, _ in await claim(work)] == ["a", "b", "c"]


async def test_all_leases_of_an_owner_last_longer_when_they_are_renewed_at_once(store: Store) -> None:
    async with store.begin() as work:
        for name in ("a", "b", "c"):
            await add_due(work, make_run(name), after(ord(name)))
        short = timedelta(seconds=3)
        await claim(work, owner="me", limit=2, lease_for=short)
        [(_, other)] = await claim(work, owner="other", lease_for=short)
        assert await work.runs.renew_leases("me", lease_for=LONG) == 2
        await work.commit()
    await wait_until_past(store, other.until)
    async with store.begin() as work:
        assert await work.runs.renew_leases("other", lease_for=LONG) == 0
        assert [run.id for run, _ in await claim(work)] == ["c"]


async def test_what_waits_for_an_engine_is_due_when_one_starts_at_that_place(store: Store) -> None:
    async with store.begin() as work:
        later = await work.read_clock() + LONG
        for run, due_at in (
            (make_run("new"), None),
            (make_run("other-place", place="there/2"), None),
            (make_run("own-place", place="here/1"), later),
            (make_run("local", is_local=True), None),
            (make_run("watched", place="here/1", state="RUNNING"), None),
            (make_run("stopping", place="here/1", state="STOP", desired="stop"), None),
            (make_run("ended", place="here/1", state="COMPLETED"), None),
            (make_run("settled", place="here/1", state="COMPLETED", settled_at=NOON), None),
        ):
            await add_due(work, run, due_at)
        assert await work.runs.wake_waiting("here/1") == 4
        assert {run.id for run, _ in await claim(work, place="here/1")} == {"new", "own-place", "stopping", "ended"}


async def test_running_runs_of_other_places_are_due_when_nobody_serves_those(store: Store) -> None:
    async with store.begin() as work:
        later = await work.read_clock() + LONG
        for run, due_at in (
            (make_run("here", place="here/1", state="RUNNING"), None),
            (make_run("there", place="there/2", state="RUNNING"), None),
            (make_run("with-deadline", place="there/2", state="RUNNING"), later),
            (make_run("told", place="there/2", state="RUNNING", reason="place.other"), later),
            (make_run("served", place="busy/3", state="RUNNING"), None),
            (make_run("stopping", place="there/2", state="STOP", desired="stop"), later),
            (make_run("settled", place="there/2", state="COMPLETED", settled_at=NOON), None),
            (make_run("nowhere", state="READY"), later),
        ):
            await add_due(work, run, due_at)
        await work.replicas.beat("busy", "busy/3", LONG)
        assert await work.runs.wake_misplaced("here/1", limit=1) == 1
        assert await work.runs.wake_misplaced("here/1", limit=10) == 1
        assert await work.runs.wake_misplaced("here/1", limit=10) == 0
        assert {run.id for run, _ in await claim(work, place="here/1")} == {"there", "with-deadline"}
        assert await work.runs.wake_misplaced(None, limit=10) == 1
        assert {run.id for run, _ in await claim(work, place=None)} == {"here"}


async def test_only_status_is_read_when_observed_runs_are_locked(store: Store) -> None:
    run = make_run("r1", status={"pods": []}, metadata={"labels": ["x"]}, effective={"a": 1})
    async with store.begin() as work:
        await work.runs.add(run, [])
        await work.runs.add(make_run("r2"), [])
        [locked] = await work.runs.lock_observed(["r1", "gone"])
        assert await work.runs.lock_observed([]) == []
    assert locked == replace(run, metadata={}, spec={}, request={}, effective=None)


@pytest.mark.parametrize("uid", ["a\0b", "\ud800", "u" * 5000])
async def test_others_are_found_when_no_run_can_have_one_of_the_uids(store: Store, uid: str) -> None:
    async with store.begin() as work:
        await work.runs.add(make_run("r1"), [])
        assert [run.uid for run in await work.runs.lock_observed(["r1", uid])] == ["r1"]
        assert [run.uid for run in await work.runs.list_without_documents(["r1", uid])] == ["r1"]
        assert await work.runs.list_existing(["r1", uid]) == ["r1"]
        assert await work.runs.delete(["r1"]) == ["r1"]
        assert await work.runs.list_buried(["r1", uid]) == ["r1"]


async def test_many_are_written_with_their_history_when_they_were_locked(store: Store) -> None:
    names = [f"r{number}" for number in range(5)]
    async with store.begin() as work:
        for name in names:
            await work.runs.add(make_run(name, metadata={"labels": ["x"]}), [make_transition(1)])
        await work.commit()
    async with store.begin() as work:
        locked = {run.id: run for run in await work.runs.lock_observed(names)}
        step = make_transition(2, state=State.RUNNING)
        updates = [
            RunUpdate(
                before=locked[name],
                after=replace(locked[name], state="RUNNING", observed_version=7),
                transitions=(step,),
                due_in=LONG,
            )
            for name in names[:3]
        ]
        seen = replace(locked["r3"], status={"text": "a" * 20_000})
        updates += [RunUpdate(before=locked["r3"], after=seen), RunUpdate(before=locked["r4"], after=locked["r4"])]
        written = await work.runs.update_many(updates)
        await work.commit()

    assert [(run.id, run.revision, run.last_sequence) for run in written] == [
        *((name, 2, 2) for name in names[:3]),
        ("r3", 2, 1),
        ("r4", 1, 1),
    ]
    async with store.begin() as work:
        now = await work.read_clock()
        for name in names:
            run = await get(work, name)
            is_running = name in names[:3]
            assert run.spec == make_run(name).spec
            assert run.metadata == {"labels": ["x"]}
            assert (run.state, run.observed_version) == (("RUNNING", 7) if is_running else ("READY", 0))
            assert (run.due_at is not None and now < run.due_at) is is_running
            assert [one.state for one in await work.runs.list_transitions(name)] == ["READY", "RUNNING"][
                : 2 if is_running else 1
            ]
        assert (await get(work, "r3")).status == seen.status
        for name in names:
            await set_columns(work, name, due_at=NOON)
        watched = await work.runs.claim_due(owner="me", limits={Lane.WATCH: 9}, lease_for=LONG)
        assert [run.id for run, _ in watched] == names[:3]


async def test_active_runs_of_a_place_come_page_by_page_when_they_are_listed(store: Store) -> None:
    async with store.begin() as work:
        for name in ("d", "b", "a", "c"):
            await work.runs.add(make_run(name, place="here/1", state="RUNNING"), [])
        await work.runs.add(make_run("ended", place="here/1", state="ERROR"), [])
        await work.runs.add(make_run("settled", place="here/1", state="ERROR", settled_at=NOON), [])
        await work.runs.add(make_run("other", place="there/2"), [])
        await work.runs.add(make_run("new"), [])
        first = await work.runs.list_active("here/1", limit=3)
        second = await work.runs.list_active("here/1", after=first[-1].uid, limit=3)
    assert [run.id for run in (*first, *second)] == ["a", "b", "c", "d", "ended"]
    assert first[0] == make_run("a", place="here/1", state="RUNNING", metadata={}, spec={}, request={})


async def test_due_time_is_of_the_databases_clock_when_a_run_is_added(store: Store) -> None:
    async with store.begin() as work:
        before = await work.read_clock()
        run = await work.runs.add(make_run("r1", due_at=after(99)), [], due_in=timedelta(0))
        idle = await work.runs.add(make_run("r2", due_at=after(99)), [])
        assert run.due_at is not None
        assert before <= run.due_at <= await work.read_clock()
        assert idle.due_at is None
        assert await get(work) == run
        assert await get(work, "r2") == idle
