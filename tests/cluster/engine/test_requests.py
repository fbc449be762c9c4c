"""How many requests a run costs the apiserver, besides the watches that all runs share and the reading of its log."""

from collections.abc import AsyncIterator

import pytest

from runyard.domain.outcomes import Seen
from testbed.cluster import Cluster
from tests.cluster.engine.interrupted_engines import Interruption, interrupt
from tests.contract.engine.kubernetes_lab import KubernetesLab, open_kubernetes_lab
from tests.contract.engine.lab import assign, assign_again, assign_service, make_anchor, see, settle
from tests.contract.engine.scripts import leave


@pytest.fixture
async def lab(cluster: Cluster) -> AsyncIterator[KubernetesLab]:
    """An engine in a namespace of its own."""
    async with open_kubernetes_lab(cluster, is_shared=True) as opened:
        yield opened


@pytest.fixture
async def counted(lab: KubernetesLab) -> Interruption:
    """The engine of the lab, with its requests counted. It has prepared its project already."""
    counted = await interrupt(lab)
    lab.engine = counted.engine
    run = assign(lab, leave(0))
    uid = await lab.engine.ensure_anchor(run)
    await lab.engine.release(run, uid)
    counted.requests.clear()
    return counted


def list_kinds(requests: list[str]) -> list[str]:
    """Method and kind of each request."""
    words = [request.split("?")[0].split("/") for request in requests]
    return [f"{parts[0].strip()} {parts[parts.index('namespaces') + 2]}" for parts in words]


async def test_job_costs_five_requests_when_nothing_goes_wrong(lab: KubernetesLab, counted: Interruption) -> None:
    run = assign(lab, leave(0), spec={"ttl_seconds": 60})
    uid = await lab.engine.ensure_anchor(run)
    await lab.engine.release(run, uid)
    await see(lab, make_anchor(run, uid), Seen.SUCCEEDED)
    await settle(lab, run, uid)
    assert list_kinds(counted.requests) == [
        "POST jobs",
        "POST secrets",
        "PATCH jobs",
        "DELETE secrets",
        "PATCH jobs",
    ]


async def test_stop_costs_three_requests_when_one_pod_runs(lab: KubernetesLab, counted: Interruption) -> None:
    run = assign(lab)
    uid = await lab.engine.ensure_anchor(run)
    await lab.engine.release(run, uid)
    await see(lab, make_anchor(run, uid), Seen.RUNNING)
    counted.requests.clear()
    await lab.engine.stop(assign_again(run, generation=2), uid)
    await see(lab, make_anchor(run, uid), Seen.STOPPED)
    assert list_kinds(counted.requests) == ["GET pods", "PATCH jobs", "PATCH pods"]


async def test_service_costs_seven_requests_when_it_is_started_stopped_and_removed(
    lab: KubernetesLab, counted: Interruption
) -> None:
    run = assign_service(lab)
    uid = await lab.engine.ensure_anchor(run)
    anchor = make_anchor(run, uid)
    await lab.engine.release(run, uid)
    await see(lab, anchor, Seen.RUNNING)
    stopped = assign_again(run, generation=2)
    await lab.engine.stop(stopped, uid)
    await see(lab, anchor, Seen.STOPPED)
    await settle(lab, stopped, uid)
    counted_before = list_kinds(counted.requests)
    await lab.engine.remove(anchor)
    assert counted_before == [
        "POST deployments",
        "POST secrets",
        "POST services",
        "PATCH deployments",
        "PATCH deployments",
        "DELETE secrets",
    ]
    assert list_kinds(counted.requests)[len(counted_before)] == "DELETE deployments"
