"""What the engine reports is written in batches, once, and never lost."""

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import pytest

from runyard.app.engine import Anchor, ContainerEnd, Observation
from runyard.app.loops import observation_lane
from runyard.app.loops.observation_lane import ObservationLane
from runyard.app.model import Run
from runyard.app.ports import Store, Unavailable
from runyard.app.runs import make_anchor
from runyard.app.runs.stop import stop_run
from runyard.domain.outcomes import Lane, Seen
from tests.unit.app.run_world import ADA, World


def make_lane(world: World, **options: Any) -> ObservationLane:
    return ObservationLane(world.core, **{"owns": lambda _uid: True, **options})


async def submit_pending(world: World, *names: str) -> list[Run]:
    """Runs that the engine has, and of which nothing was seen yet."""
    for name in names:
        await world.submit(name)
    await world.make_loop().reconcile_due()
    return [await world.get(name) for name in names]


def see(run: Run, seen: Seen = Seen.RUNNING, **fields: Any) -> Observation:
    given = {"version": 9, "generation": run.desired_generation, **fields}
    return Observation(run_uid=run.uid, uid=run.anchor_uid or "", seen=seen, **given)


class CountingStore:
    """`app.ports.Store` that counts commits, and fails where a test says so."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.begun = 0
        self.commits = 0
        self.failures: list[Exception] = []
        self.at_commit: Callable[[], None] = lambda: None
        self.is_locked = False
        """Others have locked all rows."""

    @asynccontextmanager
    async def begin(self, *, is_read_only: bool = False, is_urgent: bool = False) -> Any:
        self.begun += 1
        async with self._store.begin(is_read_only=is_read_only, is_urgent=is_urgent) as unit:
            commit = unit.commit

            async def commit_counted(**more: Any) -> None:
                if self.failures:
                    raise self.failures.pop(0)
                self.at_commit()
                await commit(**more)
                self.commits += 1

            if self.is_locked:
                unit.runs.lock_observed = _lock_nothing  # type: ignore[assignment,method-assign]
            unit.commit = commit_counted  # type: ignore[method-assign]
            yield unit


async def _lock_nothing(_run_uids: Any) -> list[Run]:
    return []


@pytest.fixture
def counted(world: World) -> CountingStore:
    store = CountingStore(world.store)
    world.core = replace(world.core, store=cast("Store", store))
    return store


async def test_one_transaction_writes_all_when_many_runs_change(world: World, counted: CountingStore) -> None:
    names = [f"r{number}" for number in range(30)]
    runs = await submit_pending(world, *names)
    lane = make_lane(world)
    before = counted.commits
    lane.offer(see(run) for run in runs)
    assert await lane.write_ready() == len(runs)
    assert counted.commits == before + 1
    assert {(await world.get(name)).state for name in names} == {"RUNNING"}


async def test_nothing_is_read_or_written_when_a_report_says_what_is_known(
    world: World, counted: CountingStore
) -> None:
    [run] = await submit_pending(world, "r1")
    lane = make_lane(world)
    lane.offer([see(run)])
    await lane.write_ready()
    before = counted.begun
    for version in range(10, 20):
        lane.offer([see(run, version=version)])
    assert not lane.has_reports
    await lane.write_ready()
    assert counted.begun == before


async def test_newest_counts_when_a_run_is_reported_several_times(world: World) -> None:
    [run] = await submit_pending(world, "r1")
    lane = make_lane(world)
    lane.offer([see(run, Seen.SUCCEEDED, version=12), see(run, version=11)])
    await lane.write_ready()
    assert (await world.get()).state == "COMPLETED"


async def test_report_is_written_later_when_the_store_fails(world: World, counted: CountingStore) -> None:
    [run] = await submit_pending(world, "r1")
    lane = make_lane(world)
    counted.failures = [Unavailable("the disk is full")]
    lane.offer([see(run)])
    with pytest.raises(Unavailable):
        await lane.write_ready()
    assert (await world.get()).state == "PENDING"
    assert lane.has_reports
    assert await lane.write_ready() == 1
    assert (await world.get()).state == "RUNNING"


async def test_lane_goes_on_by_itself_when_the_store_comes_back(
    world: World, counted: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observation_lane, "RETRY_SECONDS", 0.01)
    [run] = await submit_pending(world, "r1")
    lane = make_lane(world)
    counted.failures = [Unavailable("no")] * 3
    task = asyncio.create_task(lane.run())
    lane.offer([see(run)])
    async with asyncio.timeout(30):
        await world.reach("r1", "RUNNING")
    task.cancel()


async def test_others_are_written_when_one_of_the_batch_cannot_be_judged(world: World) -> None:
    bad, good = await submit_pending(world, "bad", "good")
    lane = make_lane(world)
    lane.offer([replace(see(bad), details=cast("Any", {"pods": {1, 2}})), see(good)])
    assert await lane.write_ready() == 1
    assert ((await world.get("bad")).state, (await world.get("good")).state) == ("PENDING", "RUNNING")
    assert not lane.has_reports


async def test_report_is_forgotten_when_its_run_is_gone(world: World) -> None:
    lane = make_lane(world)
    lane.offer([Observation(run_uid="nobody", uid="u", seen=Seen.RUNNING)])
    await lane.write_ready()
    assert not lane.has_reports


async def test_report_waits_when_another_replica_owns_the_run(world: World) -> None:
    [run] = await submit_pending(world, "r1")
    lane = make_lane(world, owns=lambda _uid: False)
    lane.offer([see(run)])
    assert await lane.write_ready() == 0
    assert (await world.get()).state == "PENDING"
    for report in lane._reports.values():  # its owner did not write it in time
        report.at = 0.0
    assert await lane.write_ready() == 1


async def test_same_report_counts_again_when_a_stop_was_requested_meanwhile(world: World) -> None:
    [run] = await submit_pending(world, "r1")
    lane = make_lane(world)
    lane.offer([see(run)])
    await lane.write_ready()
    await stop_run(world.core, ADA, "p", "r1")
    lane.offer([see(run, Seen.STOPPED)])  # older than the request: somebody else stopped it
    await lane.write_ready()
    assert (await world.get()).state == "STOP"
    lane.offer([see(run, Seen.STOPPED, generation=run.desired_generation + 1)])
    await lane.write_ready()
    assert (await world.get()).state == "STOPPED"


async def test_new_epoch_counts_when_its_versions_begin_anew(world: World) -> None:
    [run] = await submit_pending(world, "r1")
    lane = make_lane(world)
    lane.offer([see(run, version=900)])
    await lane.write_ready()
    lane.offer([see(run, Seen.SUCCEEDED, version=3)])
    await lane.write_ready()
    assert (await world.get()).state == "RUNNING"
    lane.offer([see(run, Seen.SUCCEEDED, epoch=1, version=3)])
    await lane.write_ready()
    assert (await world.get()).state == "COMPLETED"


async def test_details_wait_for_the_next_state_when_nothing_else_has_changed(
    world: World, counted: CountingStore
) -> None:
    [run] = await submit_pending(world, "r1")
    lane = make_lane(world, detail_seconds=60.0)
    before = counted.commits
    lane.offer([see(run, Seen.PENDING, details={"pods": [{"name": "x"}]})])
    assert await lane.write_ready() == 0
    lane.offer([see(run, version=10, details={"pods": [{"name": "x"}]})])
    assert await lane.write_ready() == 1
    assert ((await world.get()).state, counted.commits) == ("RUNNING", before + 1)
    lane.offer([see(run, version=11, details={"pods": [{"name": "y"}]})])
    assert await lane.write_ready() == 0
    for report in lane._reports.values():
        report.at = 0.0
    assert await lane.write_ready() == 1
    assert (await world.get()).status["pods"] == [{"name": "y"}]


async def test_ends_of_containers_are_kept_when_the_anchor_is_gone(world: World) -> None:
    [run] = await submit_pending(world, "r1")
    lane = make_lane(world)
    end = ContainerEnd(pod="r1-0", container="main", exit_code=137, signal=9, is_out_of_memory=True, peak_bytes=7)
    lane.offer([see(run, Seen.FAILED, ends=(end,))])
    await lane.write_ready()
    failed = await world.get()
    assert (failed.state, failed.message) == ("ERROR", "container main ran out of memory at 7 bytes")
    assert failed.status["ends"] == [
        {
            "pod": "r1-0",
            "container": "main",
            "instance": 0,
            "exit_code": 137,
            "signal": 9,
            "is_out_of_memory": True,
            "peak_bytes": 7,
        }
    ]


async def test_details_are_left_out_when_they_are_too_large(world: World) -> None:
    [run] = await submit_pending(world, "r1")
    lane = make_lane(world)
    lane.offer([see(run, details={"pods": [{"name": "x" * 20_000}]})])
    await lane.write_ready()
    running = await world.get()
    assert running.state == "RUNNING"
    assert "pods" not in running.status


async def test_log_is_attended_to_when_a_run_begins_or_ends(world: World) -> None:
    [run] = await submit_pending(world, "r1")
    attended: list[Anchor] = []
    lane = make_lane(world, attend=attended.append)
    for seen in (Seen.PENDING, Seen.RUNNING, Seen.SUCCEEDED):
        lane.offer([see(run, seen)])
        await lane.write_ready()
    assert [(anchor.run_uid, anchor.uid) for anchor in attended] == [(run.uid, run.anchor_uid)] * 2


async def test_ends_are_written_first_and_logs_wait_when_many_runs_are_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observation_lane, "BATCH", 2)
    monkeypatch.setattr(observation_lane, "BATCHES_AT_ONCE", 1)
    told: list[str] = []
    runs = await submit_pending(world, *(f"run-{number}" for number in range(8)))
    names = {run.uid: run.id for run in runs}
    lane = make_lane(world, attend=lambda anchor: told.append(f"log of {names[anchor.run_uid]}"))
    monkeypatch.setattr(world.core.signals, "notify", lambda run_uid: told.append(names[run_uid]))
    lane.offer([see(run) for run in runs[:4]])
    lane.offer([see(run, Seen.SUCCEEDED) for run in runs[4:]])
    anchor = make_anchor(runs[0], see(runs[0]).uid)
    assert lane.has_report(anchor)
    assert await lane.write_ready() == 8
    assert not lane.has_report(anchor)
    states = [entry for entry in told if entry in names.values()]
    assert set(states[:4]) == {run.id for run in runs[4:]}
    assert told == [*states, *(f"log of {name}" for name in states)]


@pytest.mark.parametrize("uid", ["a\0b", "\ud800", "u" * 5000])
async def test_others_are_written_when_the_uid_of_one_cannot_be_a_runs(world: World, uid: str) -> None:
    [run] = await submit_pending(world, "r1")
    lane = make_lane(world)
    lane.offer([Observation(run_uid=uid, uid="x", seen=Seen.RUNNING), see(run)])
    assert await lane.write_ready() == 1
    assert (await world.get()).state == "RUNNING"


@pytest.mark.parametrize(
    "fields",
    [
        {"epoch": 2**70},
        {"version": 2**70},
        {"generation": 2**70},
        {"epoch": -(2**70)},
        {"reason": "a\0b"},
        {"message": "a\0b"},
        {"message": "\ud800"},
        {"details": {"pods": ["\ud800\0"]}},
        {"ends": (ContainerEnd(pod="a\0", container="\ud800", exit_code=2**70),)},
    ],
)
async def test_others_are_written_when_one_cannot_be_stored(world: World, fields: dict[str, Any]) -> None:
    bad, good = await submit_pending(world, "bad", "good")
    lane = make_lane(world)
    lane.offer([see(bad, **fields), see(good)])
    await lane.write_ready()
    assert (await world.get("good")).state == "RUNNING"
    assert not lane.has_reports


async def test_text_of_a_report_is_shortened_when_it_is_too_long(world: World) -> None:
    [run] = await submit_pending(world, "r1")
    lane = make_lane(world)
    end = ContainerEnd(pod="p" * 2_000_000, container="c" * 2_000_000, exit_code=1)
    lane.offer([see(run, Seen.FAILED, reason="r" * 2_000_000, message="m" * 2_000_000, ends=(end,))])
    await lane.write_ready()
    failed = await world.get()
    assert failed.state == "ERROR"
    assert len(failed.reason or "") + len(failed.message or "") + len(str(failed.status)) < 100_000


async def test_run_is_written_when_another_object_claims_to_be_its_anchor(world: World) -> None:
    [run] = await submit_pending(world, "r1")
    lane = make_lane(world)
    lane.offer([see(run), replace(see(run, Seen.FAILED), uid="forged")])
    await lane.write_ready()
    assert (await world.get()).state == "RUNNING"


async def test_report_of_another_replicas_run_is_not_put_off_when_it_changes_again(world: World) -> None:
    [run] = await submit_pending(world, "r1")
    lane = make_lane(world, owns=lambda _uid: False)
    lane.offer([see(run)])
    [first] = [report.at for report in lane._reports.values()]
    lane.offer([see(run, version=10, message="again")])
    [second] = [report.at for report in lane._reports.values()]
    assert second == first


async def test_last_report_counts_when_it_says_what_was_written_before_the_one_that_waits(world: World) -> None:
    [run] = await submit_pending(world, "r1")
    lane = make_lane(world)
    lane.offer([see(run, message="first")])
    await lane.write_ready()
    lane.offer([see(run, version=10, message="second")])
    lane.offer([see(run, version=11, message="first")])
    await lane.write_ready()
    assert (await world.get()).message == "first"


async def test_report_counts_when_a_look_wrote_something_else_since_it_came_before(world: World) -> None:
    run = await world.submit()
    loop = world.make_loop()
    await world.look(loop)
    world.engine.explain("r1", reason="pod.waiting", message="first")
    await world.look(loop)
    world.engine.explain("r1", reason="pod.waiting", message="second")
    async with world.store.begin() as unit:
        await unit.runs.wake([run.uid])
        await unit.commit()
    await loop.reconcile_due()
    assert (await world.get()).message == "second"
    world.engine.explain("r1", reason="pod.waiting", message="first")
    await world.look(loop)
    assert (await world.get()).message == "first"


async def test_report_stays_when_another_replica_holds_the_lock_for_long(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    [run] = await submit_pending(world, "r1")
    lane = make_lane(world)
    lane.offer([see(run), Observation(run_uid="nobody", uid="u", seen=Seen.RUNNING)])

    async def lock_none(_runs: object, _uids: object) -> list[Run]:
        return []

    with monkeypatch.context() as frozen:
        frozen.setattr("runyard.store.runs.SqlRuns.lock_observed", lock_none)
        for _ in range(50):
            for report in lane._reports.values():
                report.at = 0.0
            await lane.write_ready()
    assert [report.seen.run_uid for report in lane._reports.values()] == [run.uid]
    for report in lane._reports.values():
        report.at = 0.0
    assert await lane.write_ready() == 1


async def test_report_counts_when_it_was_dropped_and_is_offered_again(world: World, counted: CountingStore) -> None:
    [run] = await submit_pending(world, "r1")
    lane = make_lane(world)
    counted.failures = [RuntimeError("odd")]
    lane.offer([see(run)])
    assert await lane.write_ready() == 0
    assert not lane.has_reports
    lane.offer([see(run)])
    assert await lane.write_ready() == 1


async def test_report_counts_when_it_first_came_before_the_anchor_was_stored(world: World) -> None:
    run = await world.submit()
    lane = make_lane(world)
    seen = Observation(run_uid=run.uid, uid="a-1", seen=Seen.RUNNING, version=9, generation=1)
    lane.offer([seen])
    assert await lane.write_ready() == 0
    await world.make_loop().reconcile_due()
    assert (await world.get()).anchor_uid == seen.uid
    lane.offer([seen])
    assert await lane.write_ready() == 1


async def test_report_is_written_when_only_its_details_differ(world: World) -> None:
    [run] = await submit_pending(world, "r1")
    lane = make_lane(world)
    for name in ("one", "two"):
        lane.offer([see(run, details={"pods": [{"name": name}]})])
        assert await lane.write_ready() == 1
    assert (await world.get()).status["pods"] == [{"name": "two"}]


async def test_report_is_written_later_when_its_row_is_locked(world: World, counted: CountingStore) -> None:
    [run] = await submit_pending(world, "r1")
    lane = make_lane(world)
    lane.offer([see(run)])
    counted.is_locked = True
    assert await lane.write_ready() == 0
    counted.is_locked = False
    for report in lane._reports.values():
        report.at = 0.0
    assert await lane.write_ready() == 1


async def test_newer_report_counts_when_it_comes_while_the_older_is_written(
    world: World, counted: CountingStore
) -> None:
    [run] = await submit_pending(world, "r1")
    lane = make_lane(world)
    lane.offer([see(run)])
    counted.at_commit = lambda: lane.offer([see(run, Seen.SUCCEEDED, version=10)])
    await lane.write_ready()
    assert (await world.get()).state == "COMPLETED"


async def test_report_of_a_new_epoch_counts_when_one_of_the_old_still_waits(world: World) -> None:
    [run] = await submit_pending(world, "r1")
    lane = make_lane(world)
    lane.offer([see(run, version=900), see(run, Seen.SUCCEEDED, epoch=1, version=3)])
    await lane.write_ready()
    assert (await world.get()).state == "COMPLETED"


async def test_ended_run_is_left_to_claims_when_there_is_no_room_to_settle_it(world: World) -> None:
    runs = await submit_pending(world, "r1", "r2")
    settled: list[str] = []
    lane = make_lane(world, count_room=lambda: 1, settle=settled.append)
    lane.offer(see(run, Seen.SUCCEEDED) for run in runs)
    assert await lane.write_ready() == 2
    assert len(settled) == 1
    loop = world.make_loop()
    [(claimed, _)] = await loop._claim({Lane.SETTLE: 10})
    assert {claimed.uid, *settled} == {run.uid for run in runs}
