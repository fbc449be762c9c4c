"""A server that was frozen in the middle of a step, and thaws after another one has done something newer."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from runyard.app.engine import Assignment
from runyard.domain.outcomes import ENDED, Seen
from testbed.cluster import Cluster
from tests.cluster.engine.interrupted_engines import interrupt
from tests.contract.engine.kubernetes_lab import KubernetesLab, open_kubernetes_lab
from tests.contract.engine.lab import (
    FixedAccess,
    assign_again,
    assign_with_secret,
    begin_and_see,
    eventually,
    make_anchor,
    see,
    settle,
)
from tests.contract.engine.scripts import WAIT_FOREVER


@pytest.fixture
async def lab(cluster: Cluster) -> AsyncIterator[KubernetesLab]:
    """An engine in a namespace of its own."""
    async with open_kubernetes_lab(cluster, is_shared=True) as opened:
        yield opened


@pytest.mark.parametrize("request_index", [0, 1, 3], ids=["before all", "before the Secret", "before the patch"])
async def test_nothing_starts_and_no_secret_is_left_when_a_frozen_release_goes_on_after_a_stop(
    lab: KubernetesLab, request_index: int
) -> None:
    run = assign_with_secret(lab, "value-80", WAIT_FOREVER, action="serve")
    uid = await lab.engine.ensure_anchor(run)
    frozen = await interrupt(lab)
    frozen.freeze_at(request_index)
    releasing = asyncio.create_task(frozen.engine.release(run, uid))
    await frozen.reached.wait()
    stopped = assign_again(run, generation=2)
    await lab.engine.stop(stopped, uid)
    await settle(lab, stopped, uid)
    frozen.thawed.set()
    await releasing
    await lab.pass_time()
    assert (await lab.engine.observe(make_anchor(run, uid))).seen in ENDED
    assert await lab.count_secret_values("value-80") == 0
    # As after any stop: a Service holds no secret, and another server may use the one that it finds.
    assert await lab.count_kinds(run.run_uid) == {"Deployment": 1, "Service": 1}


async def test_everything_stays_when_a_frozen_release_goes_on_after_the_service_was_resumed(lab: KubernetesLab) -> None:
    run = assign_with_secret(lab, "value-84", WAIT_FOREVER, action="serve")
    uid = await lab.engine.ensure_anchor(run)
    frozen = await interrupt(lab)
    frozen.freeze_at(3)
    releasing = asyncio.create_task(frozen.engine.release(run, uid))
    await frozen.reached.wait()
    assert frozen.requests[-1].startswith("PATCH")
    await lab.engine.release(run, uid)
    await lab.engine.stop(assign_again(run, generation=2), uid)
    await lab.engine.release(renew(assign_again(run, generation=3)), uid)
    await see(lab, make_anchor(run, uid), Seen.RUNNING)
    frozen.thawed.set()
    await releasing
    await lab.pass_time()
    kinds = await lab.count_kinds(run.run_uid)
    assert (kinds["Secret"], kinds["Service"]) == (1, 1), kinds
    assert (await lab.engine.observe(make_anchor(run, uid))).seen is Seen.RUNNING


@pytest.mark.parametrize("is_same_process", [True, False], ids=["same process", "another replica"])
async def test_service_starts_when_an_older_settle_meets_its_resume(lab: KubernetesLab, is_same_process: bool) -> None:
    run = assign_with_secret(lab, "value-85", WAIT_FOREVER, action="serve")
    resuming = await interrupt(lab)
    uid = await resuming.engine.ensure_anchor(run)
    await resuming.engine.release(run, uid)
    anchor = make_anchor(run, uid)
    await see(lab, anchor, Seen.RUNNING)
    stopped = assign_again(run, generation=2)
    await resuming.engine.stop(stopped, uid)
    await see(lab, anchor, Seen.STOPPED)
    await eventually(lab, lambda: resuming.engine.observe(anchor), lambda seen: seen.seen is Seen.STOPPED)
    # POST, GET and PUT of the Secret; POST and GET of the Service.
    resuming.freeze_at(len(resuming.requests) + 5)
    releasing = asyncio.create_task(resuming.engine.release(renew(assign_again(run, generation=3)), uid))
    await resuming.reached.wait()
    assert resuming.requests[-1].startswith("PATCH")
    assert not await (resuming.engine if is_same_process else lab.engine).settle(stopped, uid)
    resuming.thawed.set()
    await releasing
    assert await lab.count_secret_values("value-85") > 0
    await see(lab, anchor, Seen.RUNNING)


@pytest.mark.parametrize("request_index", [0, 1, 2], ids=["before all", "after the Secret was read", "before the end"])
async def test_secret_stays_when_a_frozen_settle_goes_on_after_the_service_was_resumed(
    lab: KubernetesLab, request_index: int
) -> None:
    run = assign_with_secret(lab, "value-81", WAIT_FOREVER, action="serve")
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    stopped = assign_again(run, generation=2)
    await lab.engine.stop(stopped, anchor.uid)
    await see(lab, anchor, Seen.STOPPED)
    frozen = await interrupt(lab)
    frozen.freeze_at(request_index)
    settling = asyncio.create_task(frozen.engine.settle(stopped, anchor.uid))
    await frozen.reached.wait()
    await lab.engine.release(renew(assign_again(run, generation=3)), anchor.uid)
    await see(lab, anchor, Seen.RUNNING)
    frozen.thawed.set()
    assert not await settling
    await lab.pass_time()
    assert await lab.count_secret_values("value-81") > 0
    assert (await lab.engine.observe(anchor)).seen is Seen.RUNNING


async def test_run_goes_on_when_a_frozen_stop_goes_on_after_the_service_was_resumed(lab: KubernetesLab) -> None:
    run = assign_with_secret(lab, "value-82", WAIT_FOREVER, action="serve")
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    frozen = await interrupt(lab)
    frozen.freeze_at(0)
    stopping = asyncio.create_task(frozen.engine.stop(assign_again(run, generation=2), anchor.uid))
    await frozen.reached.wait()
    await lab.engine.release(assign_again(run, generation=3), anchor.uid)
    frozen.thawed.set()
    await stopping
    await lab.pass_time()
    seen = await lab.engine.observe(anchor)
    assert (seen.seen, seen.generation) == (Seen.RUNNING, 3)


async def test_nothing_is_created_when_a_frozen_release_goes_on_after_the_anchor_was_removed(
    lab: KubernetesLab,
) -> None:
    run = assign_with_secret(lab, "value-83", WAIT_FOREVER)
    uid = await lab.engine.ensure_anchor(run)
    frozen = await interrupt(lab)
    frozen.freeze_at(0)
    releasing = asyncio.create_task(frozen.engine.release(run, uid))
    await frozen.reached.wait()
    await lab.engine.remove(make_anchor(run, uid))
    await see(lab, make_anchor(run, uid), Seen.ABSENT)
    frozen.thawed.set()
    await releasing
    await eventually(lab, lambda: lab.count_objects(run.run_uid), lambda count: count == 0)
    await lab.pass_time()
    assert await lab.count_objects(run.run_uid) == 0


def renew(run: Assignment) -> Assignment:
    """The same run with another token: each release has its own."""
    assert isinstance(run.access, FixedAccess)
    return replace(run, access=replace(run.access, token="token of another release"))
