"""What subscribers are told: the newest of each run, absence only by the cluster's word, and whole ends."""

import asyncio
from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import msgspec
import pytest

from runyard.app.engine import Anchor, EngineUnavailable, Observation
from runyard.domain.outcomes import Seen
from runyard.engines.kubernetes.cluster_cache import MOST_GONE_RUNS
from runyard.engines.kubernetes.observations import observe_run
from runyard.engines.kubernetes.run_objects import RunObjects, get_run_uid
from runyard.engines.kubernetes.run_watch import RunWatch, choose_newer
from runyard.engines.kubernetes.views import PodView, read_view
from runyard.engines.subscriber import Subscriber
from runyard.kube import Client, Listing, NotFound, Unreachable
from tests.unit.engines.kubernetes.test_cluster_cache import drop, make_cache, make_job, make_pod_body, put, reach
from tests.unit.kube.scripted_apiserver import answer, serve

CREATED = "2026-01-01T00:00:01Z"
FAILED = {"type": "Failed", "status": "True"}


def see(seen: Seen = Seen.RUNNING, *, uid: str = "a", epoch: int = 0, version: int = 1) -> Observation:
    return Observation(run_uid="u1", uid=uid, seen=seen, epoch=epoch, version=version)


def test_newer_one_is_chosen_when_two_observations_of_a_run_meet() -> None:
    assert choose_newer(see(version=2), see(version=1)).version == 2
    assert choose_newer(see(version=2), see(version=3)).version == 3
    assert choose_newer(see(epoch=0, version=9), see(epoch=1, version=1)).epoch == 1
    assert choose_newer(see(epoch=1, version=1), see(epoch=0, version=9)).epoch == 1


def test_absence_is_final_for_its_uid_only_when_two_observations_meet() -> None:
    gone = see(Seen.ABSENT, version=0)
    assert choose_newer(see(version=5), gone) is gone
    assert choose_newer(gone, see(version=5)) is gone
    newer = see(uid="b")
    assert choose_newer(newer, gone) is newer
    assert choose_newer(gone, newer) is newer


async def test_batch_has_each_run_once_when_it_was_told_often() -> None:
    subscriber = Subscriber(choose_newer)
    for version in (1, 3, 2):
        subscriber.tell(see(version=version))
    subscriber.tell(replace(see(), run_uid="u2"))
    batch = await anext(subscriber.iterate())
    assert [(each.run_uid, each.version) for each in batch] == [("u1", 3), ("u2", 1)]


class FakeCluster:
    """Answers `get` and `list` of a client from what a test says; counts both."""

    def __init__(self) -> None:
        self.anchor: Mapping[str, Any] | None = None
        self.pods: list[dict[str, Any]] = []
        self.is_reachable = True
        self.requests = 0

    async def get(self, *_: object, **__: object) -> Mapping[str, Any]:
        self.requests += 1
        if not self.is_reachable:
            raise Unreachable("nobody is there")
        if self.anchor is None:
            raise NotFound("no such Job", status=404)
        return self.anchor

    async def list(self, *_: object, **__: object) -> Listing:
        self.requests += 1
        if not self.is_reachable:
            raise Unreachable("nobody is there")
        return Listing(self.pods, "1")


class Told:
    """A watch over a cache, and everything that it told."""

    def __init__(self) -> None:
        self.cache = make_cache()
        self.cluster = FakeCluster()
        self.watch = RunWatch(cast("Client", self.cluster), self.cache, request_seconds=1)
        self.observations: list[Observation] = []
        for watched in self.cache._run_kinds:
            watched.reflector._has_synced = True

    async def read(self) -> None:
        async for batch in self.watch.subscribe():
            self.observations += batch

    async def rest(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    def note(self, *run_keys: str) -> None:
        self.watch._note(run_keys)

    async def list_seen(self) -> dict[str, Seen]:
        return {anchor.run_uid: seen.seen for anchor, seen in await self.watch.list_observations()}

    @property
    def seen(self) -> list[Seen]:
        return [each.seen for each in self.observations]


@asynccontextmanager
async def watching() -> Any:
    told = Told()
    tasks = [asyncio.create_task(told.read()), asyncio.create_task(told.watch.run())]
    await told.rest()
    try:
        yield told
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_absence_is_told_when_the_cluster_has_no_such_anchor() -> None:
    async with watching() as told:
        put(told.cache, told.cache.jobs, make_job("u1"))
        told.note("u1")
        await told.rest()
        drop(told.cache, told.cache.jobs, make_job("u1", version=11))
        told.note("u1")
        await told.rest()
        assert told.seen == [Seen.PENDING, Seen.ABSENT]
        told.note("u1")
        await told.rest()
        assert told.seen[-1] is Seen.ABSENT
        assert told.cluster.requests == 1


async def test_anchor_is_not_absent_when_a_gateway_answers_404() -> None:
    anchor = Anchor(run_id="r", run_uid="u1", project="p", uid="a", action="job")
    async with serve(answer("404 page not found", status=404)) as server, Client.connect(server.config()) as client:
        watch = RunWatch(client, make_cache(), request_seconds=1)
        with pytest.raises(EngineUnavailable):
            await watch.observe(anchor, namespace="ns", name="n")


async def test_anchor_is_not_absent_when_it_has_only_lost_its_labels() -> None:
    async with watching() as told:
        put(told.cache, told.cache.jobs, make_job("u1"))
        told.cluster.anchor = {"kind": "Job", **msgspec.to_builtins(make_job("u1", version=12))}
        drop(told.cache, told.cache.jobs, make_job("u1", version=11))
        told.note("u1")
        await told.rest()
        assert told.seen == [Seen.PENDING]


async def test_absence_is_told_later_when_the_cluster_cannot_be_asked(monkeypatch: Any) -> None:
    monkeypatch.setattr("runyard.engines.kubernetes.run_watch.CONFIRM_RETRY_SECONDS", 0)
    async with watching() as told:
        put(told.cache, told.cache.jobs, make_job("u1"))
        told.cluster.is_reachable = False
        drop(told.cache, told.cache.jobs, make_job("u1", version=11))
        told.note("u1")
        await told.rest()
        assert told.seen == []
        told.cluster.is_reachable = True
        await told.rest()
        assert told.seen == [Seen.ABSENT]


async def test_exit_code_is_read_from_the_cluster_when_the_job_has_ended_before_its_pod_was_seen() -> None:
    async with watching() as told:
        put(told.cache, told.cache.jobs, make_job("u1", status={"succeeded": 1}))
        pod = make_pod_body("u1", "a", created=CREATED)
        pod["status"]["phase"] = "Succeeded"
        ended = {"name": "main", "state": {"terminated": {"exitCode": 0}}}
        pod["status"]["containerStatuses"] = [ended]
        told.cluster.pods = [pod]
        told.note("u1")
        await told.rest()
        assert told.seen == [Seen.SUCCEEDED]
        assert [end.exit_code for end in told.observations[0].ends] == [0]


async def test_exit_code_is_read_from_the_cluster_when_the_pod_of_a_stopped_job_was_not_seen() -> None:
    async with watching() as told:
        conditions = [{"type": "Failed", "status": "True"}]
        put(told.cache, told.cache.jobs, make_job("u1", wish="stop", status={"failed": 1, "conditions": conditions}))
        pod = make_pod_body("u1", "a", created=CREATED)
        ended = {"name": "main", "state": {"terminated": {"exitCode": 143}}}
        pod["status"] |= {"phase": "Failed", "reason": "DeadlineExceeded", "containerStatuses": [ended]}
        told.cluster.pods = [pod]
        told.note("u1")
        await told.rest()
        assert told.seen == [Seen.STOPPED]
        assert [end.exit_code for end in told.observations[0].ends] == [143]


async def test_end_is_told_without_exit_code_when_the_pod_is_gone() -> None:
    async with watching() as told:
        put(told.cache, told.cache.jobs, make_job("u1", status={"succeeded": 1}))
        for _ in range(2):
            told.note("u1")
            await told.rest()
        assert told.seen == [Seen.SUCCEEDED, Seen.SUCCEEDED]
        assert told.observations[0].ends == ()
        assert told.cluster.requests == 1


async def test_others_are_told_when_one_run_cannot_be_observed() -> None:
    async with watching() as told:
        put(told.cache, told.cache.jobs, make_job("u1"), make_job("u2", uid="job-2"))
        find = told.cache.find_by_key

        def fail(run_key: str) -> Any:
            if run_key == "u1":
                raise ValueError("a bug")
            return find(run_key)

        told.cache.find_by_key = fail
        told.note("u1", "u2")
        await told.rest()
        assert [each.run_uid for each in told.observations] == ["u2"]


def make_ended_pod(exit_code: int = 0, *, run_uid: str = "u1") -> dict[str, Any]:
    pod = make_pod_body(run_uid, "a", created=CREATED)
    ended = {"name": "main", "state": {"terminated": {"exitCode": exit_code}}}
    pod["status"] |= {"phase": "Failed" if exit_code else "Succeeded", "containerStatuses": [ended]}
    return pod


async def test_nothing_is_asked_when_ended_jobs_have_no_pods_anymore_and_the_watch_of_pods_is_not_behind() -> None:
    async with watching() as told:
        uids = [f"u{number}" for number in range(100)]
        put(told.cache, told.cache.jobs, *(make_job(uid, uid=uid, status={"succeeded": 1}) for uid in uids))
        reach(told.cache, told.cache.pods, 10)
        assert await told.list_seen() == dict.fromkeys(uids, Seen.SUCCEEDED)
        told.note(*uids)
        await told.rest()
        assert told.cluster.requests == 0
        assert told.seen == [Seen.SUCCEEDED] * 100


async def test_list_has_the_others_and_is_not_believed_when_the_pods_of_a_run_cannot_be_read(monkeypatch: Any) -> None:
    monkeypatch.setattr("runyard.engines.kubernetes.run_watch.CONFIRM_RETRY_SECONDS", 0)
    async with watching() as told:
        put(told.cache, told.cache.jobs, make_job("u1", status={"succeeded": 1}), make_job("u2", uid="job-2"))
        told.cluster.is_reachable = False
        assert await told.list_seen() == {"u2": Seen.PENDING}
        assert not told.cache.is_current
        await told.rest()
        assert not told.cache.is_current
        told.cluster.is_reachable, told.cluster.pods = True, [make_ended_pod()]
        await told.rest()
        assert told.cache.is_current
        assert await told.list_seen() == {"u1": Seen.SUCCEEDED, "u2": Seen.PENDING}
        assert told.seen == [Seen.SUCCEEDED]


async def test_list_has_every_anchor_when_the_cluster_answers_before_its_end(monkeypatch: Any) -> None:
    monkeypatch.setattr("runyard.engines.kubernetes.run_watch.RUNS_AT_A_TIME", 1)
    async with watching() as told:
        uids = [f"u{number}" for number in range(30)]
        put(told.cache, told.cache.jobs, make_job("u0", uid="u0", status={"succeeded": 1}))
        put(told.cache, told.cache.jobs, *(make_job(uid, uid=uid) for uid in uids[1:]))
        listed = await told.list_seen()
        assert told.cache.is_current
        assert sorted(listed) == sorted(uids)


async def test_list_is_believed_again_when_the_anchor_of_an_unread_run_is_gone() -> None:
    told = Told()
    put(told.cache, told.cache.jobs, make_job("u1", status={"succeeded": 1}))
    await told.list_seen()
    assert not told.cache.is_current
    drop(told.cache, told.cache.jobs, make_job("u1", version=11))
    assert told.cache.is_current


async def test_each_run_is_asked_about_once_when_more_have_lost_their_pods_than_absences_are_remembered(
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr("runyard.engines.kubernetes.run_watch.MOST_ASKED", 1)
    async with watching() as told:
        uids = ["u1", "u2", "u3"]
        put(told.cache, told.cache.jobs, *(make_job(uid, uid=uid, status={"succeeded": 1}) for uid in uids))
        for _ in range(3):
            await told.list_seen()
            await told.rest()
        assert await told.list_seen() == dict.fromkeys(uids, Seen.SUCCEEDED)
        assert told.cluster.requests == 3


async def test_absence_is_asked_for_when_only_the_pods_of_a_run_were_read_before() -> None:
    async with watching() as told:
        put(told.cache, told.cache.jobs, make_job("u1", status={"succeeded": 1}))
        told.note("u1")
        await told.rest()
        told.cluster.anchor = {"kind": "Job", **msgspec.to_builtins(make_job("u1", version=12))}
        drop(told.cache, told.cache.jobs, make_job("u1", version=11))
        told.note("u1")
        await told.rest()
        assert Seen.ABSENT not in told.seen
        assert told.cluster.requests == 2
        assert told.watch._read_pods == {}


async def test_exit_code_stays_when_the_run_changes_before_the_watch_of_pods_has_caught_up() -> None:
    async with watching() as told:
        put(told.cache, told.cache.jobs, make_job("u1", status={"failed": 1, "conditions": [FAILED]}))
        told.cluster.pods = [make_ended_pod(3)]
        told.note("u1")
        await told.rest()
        put(told.cache, told.cache.jobs, make_job("u1", version=12, status={"failed": 1, "conditions": [FAILED]}))
        told.note("u1")
        await told.rest()
        [(_, listed)] = await told.watch.list_observations()
        assert [[end.exit_code for end in each.ends] for each in (*told.observations, listed)] == [[3]] * 3
        assert told.cluster.requests == 1
        reach(told.cache, told.cache.pods, 12)
        await told.list_seen()
        assert told.watch._read_pods == {}


async def test_list_shows_what_was_listed_when_a_run_changes_before_it_is_read() -> None:
    told = Told()
    put(told.cache, told.cache.jobs, make_job("u1"))
    listed = await told.watch.list_observations()
    before = listed[0]
    put(told.cache, told.cache.jobs, make_job("u1", version=12, status={"failed": 1, "conditions": [FAILED]}))
    reach(told.cache, told.cache.pods, 12)
    assert (len(listed), listed[0], listed[:5]) == (1, before, [before])
    [(_, now)] = await told.watch.list_observations()
    assert (before[1].seen, now.seen) == (Seen.PENDING, Seen.FAILED)


async def test_runs_that_may_have_ended_come_first_when_many_are_listed() -> None:
    told = Told()
    put(told.cache, told.cache.jobs, *(make_job(f"u{n}", uid=f"job-{n}") for n in range(3)))
    put(told.cache, told.cache.jobs, make_job("u3", uid="job-3", status={"succeeded": 1}))
    put(told.cache, told.cache.jobs, make_job("u4", uid="job-4"))
    put(told.cache, told.cache.pods, read_view(PodView, make_ended_pod(3, run_uid="u4")))
    reach(told.cache, told.cache.pods, 12)
    listed = [(anchor.run_uid, seen.seen) for anchor, seen in await told.watch.list_observations()]
    assert sorted(listed[:2]) == [("u3", Seen.SUCCEEDED), ("u4", Seen.PENDING)]
    assert sorted(listed[2:]) == [(f"u{n}", Seen.PENDING) for n in range(3)]


async def test_a_slice_leaves_out_a_run_when_it_cannot_be_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    put(told.cache, told.cache.jobs, make_job("u1"), make_job("u2", uid="job-2"))
    listed = await told.watch.list_observations()
    real, runs = observe_run, ["u1"]

    def fail(objects: RunObjects) -> Observation:
        if get_run_uid(objects.anchor) in runs:
            raise ValueError("a bug")
        return real(objects)

    monkeypatch.setattr("runyard.engines.kubernetes.run_watch.observe_run", fail)
    assert [anchor.run_uid for anchor, _ in listed[:]] == ["u2"]
    assert not told.cache.is_current
    assert await told.list_seen() == {"u2": Seen.PENDING}  # and from now on, it is not listed
    assert not told.cache.is_current
    runs.clear()
    assert await told.list_seen() == {"u1": Seen.PENDING, "u2": Seen.PENDING}
    assert told.cache.is_current


async def test_others_are_listed_when_one_run_cannot_be_observed() -> None:
    told = Told()
    put(told.cache, told.cache.jobs, make_job("u1"), make_job("u2", uid="job-2"))
    find = told.cache.find_by_key

    def fail(run_key: str) -> Any:
        if run_key == "u1":
            raise ValueError("a bug")
        return find(run_key)

    told.cache.find_by_key = fail  # type: ignore[method-assign]
    assert await told.list_seen() == {"u2": Seen.PENDING}
    assert not told.cache.is_current


async def test_others_are_told_when_one_run_cannot_be_asked_about() -> None:
    async with watching() as told:
        read = told.watch.read_anchor

        async def fail(action: str, *, namespace: str, name: str) -> Any:
            if name == make_job("u1").metadata.name:
                raise ValueError("a bug")
            return await read(action, namespace=namespace, name=name)

        told.watch.read_anchor = fail
        for run_uid in ("u1", "u2"):
            put(told.cache, told.cache.jobs, make_job(run_uid, uid=run_uid))
            drop(told.cache, told.cache.jobs, make_job(run_uid, uid=run_uid, version=11))
            told.note(run_uid)
            await told.rest()
        assert [(each.run_uid, each.seen) for each in told.observations] == [("u2", Seen.ABSENT)]


async def test_every_absence_is_told_with_its_ends_when_thousands_are_deleted_at_once() -> None:
    count = 2 * MOST_GONE_RUNS
    async with watching() as told:
        for number in range(count):
            run_uid, name = f"u{number}", f"pod-{number}"
            job = make_job(run_uid, uid=f"job-{number}")
            pod = read_view(
                PodView, {**make_ended_pod(3), "metadata": make_pod_body(run_uid, name, created=CREATED)["metadata"]}
            )
            put(told.cache, told.cache.jobs, job)
            put(told.cache, told.cache.pods, pod)
            drop(told.cache, told.cache.pods, pod)
            drop(told.cache, told.cache.jobs, job)
        told.note(*(f"u{number}" for number in range(count)))
        async with asyncio.timeout(30):
            while len(told.observations) < count:  # noqa: ASYNC110 - several tasks tell them
                await asyncio.sleep(0.001)
        told_ends = {(each.seen, *(end.exit_code for end in each.ends)) for each in told.observations}
        assert told_ends == {(Seen.ABSENT, 3)}
        assert len(told.cache._gone_anchors) == MOST_GONE_RUNS
