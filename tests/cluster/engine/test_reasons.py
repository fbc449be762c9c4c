"""Runs that wait or fail on a real cluster say why, in the words and figures of the cluster. All run side by side."""

import asyncio
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from runyard.app.engine import Anchor, Assignment, Observation
from runyard.domain.outcomes import Seen
from runyard.domain.reasons import Reason
from runyard.engines.kubernetes.namespaces import project_namespace
from runyard.engines.kubernetes.rendered_runs import name_anchor
from runyard.kube.resources import JOBS, PODS, RESOURCE_QUOTAS
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.resources import Sides
from runyard.spec.volumes import Volume
from testbed.cluster import Cluster
from tests.contract.engine.kubernetes_lab import KubernetesLab, open_kubernetes_lab
from tests.contract.engine.lab import (
    assign,
    assign_again,
    assign_service,
    begin,
    begin_and_see,
    eventually,
    recording,
    see,
    settle,
)
from tests.contract.engine.scripts import FILL_MEMORY, leave, say

pytestmark = pytest.mark.kubernetes
CORES = Quantity.parse("1000")
QUOTA_RUN = "quota"


def change(run: Assignment, **fields: Any) -> Assignment:
    """The run with other fields of its spec than the lab gives every run."""
    return replace(run, effective=replace(run.effective, **fields))


async def expect(
    lab: KubernetesLab, run: Assignment, seen: Seen, reason: Reason | None, message: str | None
) -> tuple[Anchor, Observation]:
    """Begin a run, and wait until it is seen like that; the message is a regular expression."""
    anchor = await begin(lab, run)
    return anchor, await expect_anchor(lab, anchor, seen, reason, message)


async def expect_anchor(
    lab: KubernetesLab, anchor: Anchor, seen: Seen, reason: Reason | None, message: str | None
) -> Observation:
    def is_right(found: Observation) -> bool:
        is_said = re.fullmatch(message, found.message or "") if message else found.message is None
        return found.seen is seen and found.reason == reason and bool(is_said)

    return await eventually(lab, lambda: lab.engine.observe(anchor), is_right, what=anchor.run_id)


async def expect_ends(lab: KubernetesLab, anchor: Anchor, codes: list[int]) -> None:
    """A pod may be seen to have failed before the ends of its containers are."""

    def is_right(found: Observation) -> bool:
        return [end.exit_code for end in found.ends] == codes

    await eventually(lab, lambda: lab.engine.observe(anchor), is_right, what=f"ends of {anchor.run_id}")


async def expect_missing_image(lab: KubernetesLab) -> None:
    run = change(assign(lab, run_id="image"), image="registry.invalid/team/train:1")
    message = r"the image registry.invalid/team/train:1 cannot be pulled: .*registry\.invalid.*"
    await expect(lab, run, Seen.PENDING, Reason.IMAGE_UNREACHABLE, message)


async def expect_no_room(lab: KubernetesLab) -> None:
    run = assign(lab, run_id="room", spec={"resources": {"cpu": Sides(requests=CORES, limits=CORES)}})
    message = r"no node fits \(1 node\): 1 has too little CPU free; the run requests cpu 1k"
    await expect(lab, run, Seen.PENDING, Reason.RESOURCES_WAITING, message)


async def expect_no_node(lab: KubernetesLab) -> None:
    run = assign(lab, run_id="node", spec={"node_selector": {"disk": "fast"}})
    message = r"no node fits \(1 node\): 1 does not match node_selector or affinity"
    await expect(lab, run, Seen.PENDING, Reason.PLACEMENT_UNMATCHED, message)


async def expect_out_of_memory(lab: KubernetesLab) -> None:
    run = assign(lab, FILL_MEMORY, run_id="memory")
    message = r"out of memory: .*limit.* 32Mi; try resources\.mem: 64Mi"
    _, seen = await expect(lab, run, Seen.FAILED, Reason.MEMORY_EXCEEDED, message)
    assert [end.is_out_of_memory for end in seen.ends] == [True]


async def expect_exit_code(lab: KubernetesLab) -> None:
    run = assign(lab, say("cannot read input.csv"), leave(3), run_id="code")
    message = r"container main ended with exit code 3; last lines: cannot read input\.csv"
    await expect(lab, run, Seen.FAILED, Reason.RUN_FAILED, message)


async def expect_start_error(lab: KubernetesLab) -> None:
    run = change(assign(lab, run_id="start"), command=("/app/train",))
    message = r'the program of container main could not be started: exec: "/app/train": .*no such file or directory'
    await expect(lab, run, Seen.FAILED, Reason.START_FAILED, message)


async def expect_root_image(lab: KubernetesLab) -> None:
    """It is final while its pod still waits, and settling it removes the pod."""
    run = change(assign(lab, run_id="root"), run_as_user=None)
    message = r"the image busybox:1\.36 runs as root, which is not allowed; set run_as_user: 1000, or .*"
    anchor, _ = await expect(lab, run, Seen.FAILED, Reason.IMAGE_ROOT, message)
    await settle(lab, run, anchor.uid)
    await see(lab, anchor, Seen.ABSENT)
    await eventually(lab, lambda: lab.count_objects(run.run_uid), lambda count: count == 0)


async def expect_unbound_claim(lab: KubernetesLab) -> None:
    data = Volume(
        name="data",
        type="persistent_volume_claim",
        mount_path="/data",
        size=Quantity.parse("1Gi"),
        storage_class="fast-ssd",
        lifetime="run",
    )
    run = assign(lab, run_id="claim", spec={"volumes": (data,)})
    message = r"the claim \S+\.data is not bound: the cluster has no storage class fast-ssd"
    await expect(lab, run, Seen.PENDING, Reason.VOLUME_UNBOUND, message)


async def expect_missing_class(lab: KubernetesLab) -> None:
    run = assign(lab, run_id="class", spec={"runtime_class": "gvisor"})
    message = "the runtime class gvisor does not exist in the cluster"
    await expect(lab, run, Seen.PENDING, Reason.RUNTIME_CLASS_MISSING, message)


async def expect_crash_loop(lab: KubernetesLab) -> None:
    """A service that crashes is never ended by us."""
    run = assign_service(lab, say("cannot open model.bin"), leave(4), run_id="crash")
    message = (
        r"container main is started again after \S+ \(restarts so far: [1-9]\); last time:"
        r" container main ended with exit code 4; last lines: cannot open model\.bin"
    )
    _, seen = await expect(lab, run, Seen.PENDING, Reason.CRASH_LOOP, message)
    assert "service" not in seen.details
    assert [pod["step"] for pod in seen.details["pods"]] == ["restarting"]


async def expect_eviction(lab: KubernetesLab) -> None:
    """The run is started again, although it has no retries; its reason is told meanwhile, and stays with the end."""
    run = assign(lab, run_id="evicted")
    async with recording(lab.engine.changes()) as changes:
        anchor = await begin_and_see(lab, run, Seen.RUNNING)
        (pod,) = await lab._list(PODS, run.run_uid)
        await lab.client.evict(pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])
        again = await eventually(
            lab,
            lambda: lab.engine.observe(anchor),
            lambda seen: seen.seen is Seen.RUNNING and seen.details["pods"][-1]["name"] != pod["metadata"]["name"],
            what="another pod",
        )
        told = [seen for seen in changes.observations if seen.run_uid == run.run_uid]
    assert Reason.POD_EVICTED in {seen.reason for seen in told}
    assert not {seen.seen for seen in told} & {Seen.FAILED, Seen.ABSENT, Seen.SUCCEEDED}
    assert [(end.pod, end.reason) for end in again.ends] == [(pod["metadata"]["name"], Reason.POD_EVICTED)]
    await expect_anchor(lab, anchor, Seen.RUNNING, None, None)


async def expect_deleted_pod(lab: KubernetesLab) -> None:
    run = assign(lab, run_id="deleted")
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    (pod,) = await lab._list(PODS, run.run_uid)
    await lab.client.delete(PODS, pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])
    message = f"somebody deleted pod {pod['metadata']['name']} while it worked"
    await expect_anchor(lab, anchor, Seen.FAILED, Reason.POD_DELETED, message)


async def expect_stop(lab: KubernetesLab) -> None:
    run = assign(lab, run_id="stopped")
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    await lab.engine.stop(assign_again(run, generation=2), anchor.uid)
    await expect_anchor(lab, anchor, Seen.STOPPED, None, None)
    await expect_ends(lab, anchor, [143])


async def expect_deadline(lab: KubernetesLab) -> None:
    """The Job's own deadline, which is only a backstop: Kubernetes deletes the pod, whose end was seen."""
    run = assign(lab, run_id="deadline")
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    await lab.client.patch(
        JOBS, name_anchor(run), {"spec": {"activeDeadlineSeconds": 1}}, namespace=project_namespace(run.project)
    )
    message = "the Job reached its deadline of 1 s, and Kubernetes ended it"
    await expect_anchor(lab, anchor, Seen.FAILED, Reason.TIMEOUT_RUN, message)
    await expect_ends(lab, anchor, [143])


async def expect_quota(lab: KubernetesLab) -> None:
    """A run that a quota refuses waits, with the figures, and goes on when there is room."""
    namespace = project_namespace(lab.other_project)
    quota = {"metadata": {"name": "team"}, "spec": {"hard": {"requests.memory": "16Mi"}}}
    await lab.client.create(RESOURCE_QUOTAS, quota, namespace=namespace)
    run = assign(lab, run_id=QUOTA_RUN, project=lab.other_project)
    message = (
        r"the resource quota team has no room \(requests\.memory: 32Mi requested, 0 of 16Mi used\);"
        r" the run goes on when there is room"
    )
    anchor, _ = await expect(lab, run, Seen.PENDING, Reason.QUOTA_EXCEEDED, message)
    roomy = {"spec": {"hard": {"requests.memory": "1Gi"}}}
    await lab.client.patch(RESOURCE_QUOTAS, "team", roomy, namespace=namespace)
    await expect_anchor(lab, anchor, Seen.RUNNING, None, None)


async def expect_service(lab: KubernetesLab) -> None:
    """Its address on a node answers from this machine, which is not in the cluster."""
    run = assign_service(lab, run_id="service", spec={"service_type": "NodePort"})
    _, seen = await expect(lab, run, Seen.RUNNING, None, None)
    service = seen.details["service"]
    assert service["url"] == f"{name_anchor(run)}.{project_namespace(lab.project)}:8080"
    (address,) = (each["url"] for each in service["addresses"] if each["from"] == "nodes")
    await eventually(
        lab,
        lambda: asyncio.to_thread(_fetch_status, f"http://{address}/"),
        lambda status: status in (200, 404),
        what=f"an answer of {address}",
    )


def _fetch_status(url: str) -> int | None:
    """None: nobody listens there, as long as kube-proxy has not heard of the service."""
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


CASES: tuple[Callable[[KubernetesLab], Any], ...] = (
    *(expect_quota, expect_crash_loop, expect_eviction, expect_deadline, expect_stop, expect_deleted_pod),
    *(expect_missing_image, expect_no_room, expect_no_node, expect_out_of_memory, expect_exit_code),
    *(expect_start_error, expect_root_image, expect_unbound_claim, expect_missing_class, expect_service),
)


async def test_every_run_says_why_when_it_waits_or_fails(cluster: Cluster) -> None:
    async with open_kubernetes_lab(cluster) as lab:
        lab.patience = 1200
        results = await asyncio.gather(*(case(lab) for case in CASES), return_exceptions=True)
    failed = {case.__name__: result for case, result in zip(CASES, results, strict=True) if result is not None}
    assert not failed, "\n".join(f"{name}: {type(error).__name__}: {error}" for name, error in failed.items())
