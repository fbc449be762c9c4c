"""Jobs that their controller has forgotten: released, without a pod that lives, and nothing happens."""

from itertools import count
from typing import Any, cast

import pytest

from runyard.engines.kubernetes import stalled_jobs
from runyard.engines.kubernetes.cluster_cache import ClusterCache
from runyard.engines.kubernetes.cluster_writes import ClusterWrites
from runyard.engines.kubernetes.stalled_jobs import LONGEST_STALLED_SECONDS, STALLED_SECONDS, StalledJobs
from runyard.engines.kubernetes.views import PodView, read_view
from runyard.kube import NotFound
from runyard.manifests.patches import Remind
from tests.unit.engines.kubernetes.test_cluster_cache import make_cache, make_job, make_pod_body, put
from tests.unit.engines.kubernetes.test_run_watch import make_ended_pod


class Writes:
    """Notes which Jobs were patched."""

    def __init__(self) -> None:
        self.reminded: list[str] = []
        self.fails = False

    async def patch(self, patch: Remind) -> None:
        if self.fails:
            raise NotFound("it is gone", status=404, is_status=True)
        self.reminded.append(patch.uid)


class World:
    """A cache with Jobs, and a clock."""

    def __init__(self) -> None:
        self.cache: ClusterCache = make_cache()
        self.writes = Writes()
        self.now = 0.0
        self.versions = count(10)
        self.jobs = StalledJobs(self.cache, cast("ClusterWrites", self.writes), clock=lambda: self.now)

    def show(self, number: int, *, conditions: tuple[str, ...] = (), is_suspended: bool = False, **status: Any) -> None:
        told = [{"type": name, "status": "True"} for name in conditions]
        job = make_job(
            f"run-{number}",
            uid=f"job-{number}",
            version=next(self.versions),
            spec={"suspend": is_suspended},
            status={"conditions": told, **status},
        )
        put(self.cache, self.cache.jobs, job)

    def show_pod(self, number: int, *, is_ended: bool) -> None:
        run_uid = f"run-{number}"
        body = make_pod_body(run_uid, "pod", created="2026-01-01T00:00:00Z")
        put(self.cache, self.cache.pods, read_view(PodView, make_ended_pod(7, run_uid=run_uid) if is_ended else body))

    async def look_after(self, seconds: float) -> list[str]:
        self.now += seconds
        self.writes.reminded.clear()
        await self.jobs.remind()
        return list(self.writes.reminded)


@pytest.fixture
def world() -> World:
    return World()


async def test_controller_is_reminded_ever_more_seldom_when_nothing_happens_to_a_job(world: World) -> None:
    world.show(1)
    assert await world.look_after(0) == []
    assert await world.look_after(STALLED_SECONDS - 1) == []
    assert await world.look_after(1) == ["job-1"]
    assert await world.look_after(STALLED_SECONDS) == []
    assert await world.look_after(STALLED_SECONDS) == ["job-1"]
    pauses = []
    for _ in range(6):
        began = world.now
        while not await world.look_after(10):
            pass
        pauses.append(world.now - began)
    assert pauses[-1] == LONGEST_STALLED_SECONDS


async def test_time_begins_again_when_the_controller_does_something(world: World) -> None:
    world.show(1)
    await world.look_after(0)
    world.show(1, failed=1)
    assert await world.look_after(STALLED_SECONDS) == []
    world.show_pod(1, is_ended=True)
    assert await world.look_after(STALLED_SECONDS - 1) == []
    assert await world.look_after(STALLED_SECONDS) == ["job-1"]


async def test_job_is_left_alone_when_a_pod_lives_or_it_is_held_back_or_has_ended(world: World) -> None:
    world.show(1)
    world.show_pod(1, is_ended=False)
    world.show(2, is_suspended=True)
    world.show(3, conditions=("Complete",))
    world.show(4, conditions=("Failed",))
    await world.look_after(0)
    assert await world.look_after(10 * STALLED_SECONDS) == []


async def test_the_others_are_reminded_when_one_cannot_be(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stalled_jobs, "MOST_REMINDERS", 2)
    for number in (1, 2, 3):
        world.show(number)
    await world.look_after(0)
    world.writes.fails = True
    assert await world.look_after(STALLED_SECONDS) == []
    world.writes.fails = False
    assert len(await world.look_after(1)) == 2
    assert len(await world.look_after(1)) == 1
