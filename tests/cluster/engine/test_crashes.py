"""A crash between any two requests of a step: another process finishes the step, and nothing exists twice."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from runyard.app.engine import Assignment, Engine
from runyard.domain.outcomes import Seen
from testbed.cluster import Cluster
from tests.cluster.engine.interrupted_engines import Died, When, interrupt
from tests.contract.engine.kubernetes_lab import KubernetesLab, open_kubernetes_lab
from tests.contract.engine.lab import (
    assign,
    assign_again,
    assign_with_secret,
    begin_and_see,
    eventually,
    make_anchor,
    see,
    settle,
)
from tests.contract.engine.scripts import WAIT_FOREVER, leave

Step = Callable[[Engine], Awaitable[object]]
MOST_REQUESTS = 12
"""More than any step sends."""


@pytest.fixture
async def lab(cluster: Cluster) -> AsyncIterator[KubernetesLab]:
    """An engine in a namespace of its own."""
    async with open_kubernetes_lab(cluster, is_shared=True) as opened:
        yield opened


async def crash(lab: KubernetesLab, step: Step, index: int, when: When) -> bool:
    """Take a step in a process that dies at a request; returns False if the step needs no more requests."""
    interruption = await interrupt(lab)
    interruption.die_at(index, when)
    try:
        await step(interruption.engine)
    except Died:
        return True
    finally:
        await interruption.engine.close()
    assert not interruption.is_dead, "the step has swallowed its own death"
    return False


async def crash_everywhere(lab: KubernetesLab, prepare: Callable[[], Awaitable[Step]]) -> int:
    """Let the step of a new run crash at each of its requests, before and after it; returns how many there are."""
    for index in range(MOST_REQUESTS):
        for when in ("before", "after"):
            if not await crash(lab, await prepare(), index, "before" if when == "before" else "after"):
                return index
    raise AssertionError("the step never ends")


async def check_whole(lab: KubernetesLab, run: Assignment, uid: str) -> None:
    """The run has ended well, by one Job and one pod, and left no secret."""
    await see(lab, make_anchor(run, uid), Seen.SUCCEEDED)
    await settle(lab, run, uid)
    assert await lab.engine.find_anchor(run) == uid
    kinds = await lab.count_kinds(run.run_uid)
    assert kinds == {"Job": 1, "Pod": 1}, kinds


async def test_there_is_one_job_when_the_server_dies_while_it_anchors_a_run(lab: KubernetesLab) -> None:
    runs: list[Assignment] = []

    async def prepare() -> Step:
        runs.append(assign_with_secret(lab, "value-90", leave(0)))
        return lambda engine: engine.ensure_anchor(runs[-1])

    assert await crash_everywhere(lab, prepare) == 1

    async def finish(run: Assignment) -> None:
        uid = await lab.engine.ensure_anchor(run)
        await lab.engine.release(run, uid)
        await check_whole(lab, run, uid)

    await asyncio.gather(*(finish(run) for run in runs))


async def test_it_runs_once_when_the_server_dies_while_it_releases_a_run(lab: KubernetesLab) -> None:
    runs: list[tuple[Assignment, str]] = []

    async def prepare() -> Step:
        run = assign_with_secret(lab, "value-91", leave(0))
        uid = await lab.engine.ensure_anchor(run)
        runs.append((run, uid))
        return lambda engine: engine.release(run, uid)

    # A process asks once for the registry credentials of a project.
    assert await crash_everywhere(lab, prepare) == 3

    async def finish(run: Assignment, uid: str) -> None:
        await lab.engine.release(run, uid)
        await check_whole(lab, run, uid)

    await asyncio.gather(*(finish(*one) for one in runs))


async def test_it_ends_in_place_when_the_server_dies_while_it_stops_a_run(lab: KubernetesLab) -> None:
    runs: list[tuple[Assignment, str]] = []

    async def prepare() -> Step:
        run = assign(lab, WAIT_FOREVER)
        anchor = await begin_and_see(lab, run, Seen.RUNNING)
        stopped = assign_again(run, generation=2)
        runs.append((stopped, anchor.uid))
        return lambda engine: engine.stop(stopped, anchor.uid)

    assert await crash_everywhere(lab, prepare) == 3

    async def finish(run: Assignment, uid: str) -> None:
        await lab.engine.stop(run, uid)
        await see(lab, make_anchor(run, uid), Seen.STOPPED)
        kinds = await lab.count_kinds(run.run_uid)
        assert kinds == {"Job": 1, "Pod": 1, "Secret": 1}, kinds
        await settle(lab, run, uid)

    await asyncio.gather(*(finish(*one) for one in runs))


async def test_secrets_go_and_the_ttl_is_set_when_the_server_dies_while_it_settles_a_run(lab: KubernetesLab) -> None:
    runs: list[tuple[Assignment, str]] = []

    async def prepare() -> Step:
        run = assign_with_secret(lab, "value-92", leave(0))
        run = assign_again(assign(lab, leave(0), spec={"ttl_seconds": 1}, access=run.access), generation=1)
        anchor = await begin_and_see(lab, run, Seen.SUCCEEDED)
        runs.append((run, anchor.uid))
        return lambda engine: engine.settle(run, anchor.uid)

    # Another process created the Secret: this one reads Secret and anchor, deletes the one and patches the other.
    assert await crash_everywhere(lab, prepare) == 4

    async def finish(run: Assignment, uid: str) -> None:
        await settle(lab, run, uid)
        await see(lab, make_anchor(run, uid), Seen.ABSENT)
        await eventually(lab, lambda: lab.count_objects(run.run_uid), lambda count: count == 0)

    await asyncio.gather(*(finish(*one) for one in runs))


async def test_nothing_is_left_when_the_server_dies_while_it_removes_a_run(lab: KubernetesLab) -> None:
    runs: list[tuple[Assignment, str]] = []

    async def prepare() -> Step:
        run = assign_with_secret(lab, "value-93", WAIT_FOREVER)
        anchor = await begin_and_see(lab, run, Seen.RUNNING)
        runs.append((run, anchor.uid))
        return lambda engine: engine.remove(anchor)

    assert await crash_everywhere(lab, prepare) == 1

    async def finish(run: Assignment, uid: str) -> None:
        await lab.engine.remove(make_anchor(run, uid))
        await see(lab, make_anchor(run, uid), Seen.ABSENT)
        await eventually(lab, lambda: lab.count_objects(run.run_uid), lambda count: count == 0)

    await asyncio.gather(*(finish(*one) for one in runs))
