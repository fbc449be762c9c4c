"""Faults one by one, where a single assertion says best what must hold."""

import asyncio
import json
import re
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from testbed.errors import TestbedError
from testbed.faults import Answer, Delay, Expire, FaultPlan, LoseAnswer, Repeat, Rule, Stall
from tests.chaos.evidence import Evidence, Tampering
from tests.chaos.lab import BASE, PATIENT_SECONDS, Lab, fill_quota, wait_until
from tests.chaos.report import assert_clean
from tests.chaos.witness import Sighting
from tests.chaos.workloads import ENDLESS_LINES, Workload

JOBS = "/apis/batch/v1/namespaces/*/jobs"
pytestmark = pytest.mark.asyncio(loop_scope="module")


def make_workload(run_id: str, *, lines: int = 3, pause_seconds: float = 0.2, **more: Any) -> Workload:
    return Workload(number=1, run_id=run_id, lines=lines, pause_seconds=pause_seconds, ttl_seconds=3600, **more)


def make_endless(run_id: str) -> Workload:
    return make_workload(run_id, lines=ENDLESS_LINES)


async def judge(lab: Lab, *tamperings: Tampering) -> Evidence:
    """The evidence of the only run; no rule is broken."""
    (evidence,) = await lab.collect(tamperings)
    assert_clean([evidence])
    return evidence


def list_seen(lab: Lab, resource: str) -> list[Sighting]:
    """What was ever seen of the test's own runs."""
    return [one for one in lab.witness.list(resource) if one.run_id in lab.runs]


async def wait_for_pod(lab: Lab, run_id: str) -> Sighting:
    """The run's pod, once its program runs."""
    async with asyncio.timeout(PATIENT_SECONDS):
        while True:
            for pod in list_seen(lab, "pods"):
                if pod.run_id == run_id and pod.has_started and not pod.is_deleted and pod.phase == "Running":
                    return pod
            await asyncio.sleep(0.05)


async def delete(lab: Lab, path: str) -> None:
    await asyncio.to_thread(lab.cluster.api.delete, path)


def count_creations(evidence: Evidence) -> int:
    return sum(entry.verb == "create" and entry.resource == "jobs" and entry.is_done for entry in evidence.entries)


async def wait_until_complete(lab: Lab, run_id: str) -> None:
    await lab.wait_for(run_id, lambda status: status.get("logs") == {"state": "complete"})


async def test_server_has_no_more_rights_than_are_printed_when_a_storm_starts_it(lab: Lab) -> None:
    user = f"system:serviceaccount:{lab.namespace}-system:runyard-server"

    def may(*request: str, namespace: str) -> bool:
        asked = ("auth", "can-i", *request, "--as", user, "--namespace", namespace)
        with suppress(TestbedError):  # its exit code says no as well
            return lab.cluster.kubectl(*asked).strip() == "yes"
        return False

    assert may("create", "jobs", namespace=lab.namespace)
    assert not may("list", "secrets", namespace=lab.namespace)
    assert not may("create", "pods", namespace=lab.namespace)
    assert not may("create", "jobs", namespace="default")


@pytest.mark.parametrize(
    "fault",
    [
        LoseAnswer(),
        LoseAnswer(instead=Answer(504)),
        Answer(409, reason="AlreadyExists"),
        Answer(409, reason="Conflict"),
        Answer(429, retry_after_seconds=1),
        Answer(500),
        Answer(503),
        *(Answer(status, is_page=True) for status in (400, 403, 413, 422)),
        Answer(403),
    ],
    ids=str,
)
async def test_run_has_one_job_when_its_creation_meets_a_fault(
    lab: Lab, run_id: str, fault: LoseAnswer | Answer
) -> None:
    lab.proxy.plan = FaultPlan(rules=[Rule(fault, method="POST", path=JOBS)])
    await lab.submit(make_workload(run_id))
    await lab.wait_for_state(run_id, "COMPLETED")
    await wait_until_complete(lab, run_id)
    assert count_creations(await judge(lab)) == 1


@pytest.mark.parametrize("fault", [LoseAnswer(), Answer(503), Answer(422, is_page=True), Delay(3.0)], ids=str)
async def test_run_completes_when_its_release_meets_a_fault(
    lab: Lab, run_id: str, fault: LoseAnswer | Answer | Delay
) -> None:
    lab.proxy.plan = FaultPlan(rules=[Rule(fault, method="PATCH", path=f"{JOBS}/*")])
    await lab.submit(make_workload(run_id))
    await lab.wait_for_state(run_id, "COMPLETED")
    await wait_until_complete(lab, run_id)
    await judge(lab)


async def test_secret_is_deleted_when_a_gateway_answers_404_in_place_of_the_apiserver(lab: Lab, run_id: str) -> None:
    before = lab.proxy.counts["answer-404"]
    secrets = "/api/v1/namespaces/*/secrets/*"
    lab.proxy.plan = FaultPlan(rules=[Rule(Answer(404, is_page=True), method="DELETE", path=secrets)])
    await lab.submit(make_workload(run_id))
    await lab.wait_for_state(run_id, "COMPLETED")

    async def has_no_secret() -> bool:
        path = f"/api/v1/namespaces/{lab.namespace}/secrets?labelSelector=runyard.io/run%3D{run_id}"
        return not (await asyncio.to_thread(lab.cluster.api.get, path))["items"]

    await wait_until(has_no_secret)
    assert lab.proxy.counts["answer-404"] == before + 1
    await wait_until_complete(lab, run_id)
    await judge(lab)


@pytest.mark.parametrize("fault", [Repeat(), Expire(), Stall(seconds=3.0)], ids=str)
async def test_run_completes_when_its_events_are_repeated_expired_or_delayed(
    lab: Lab, run_id: str, fault: Repeat | Expire | Stall
) -> None:
    before = lab.proxy.counts[fault.kind]
    lab.proxy.plan = FaultPlan(rules=[Rule(fault, watch=True, times=12)])
    lab.proxy.sever()
    await lab.submit(make_workload(run_id))
    await lab.wait_for_state(run_id, "COMPLETED")
    await wait_until_complete(lab, run_id)
    await judge(lab)
    assert lab.proxy.counts[fault.kind] > before


async def test_run_is_lost_and_no_job_is_made_again_when_somebody_deletes_its_job(lab: Lab, run_id: str) -> None:
    await lab.submit(make_endless(run_id))
    await wait_for_pod(lab, run_id)
    await lab.wait_for_state(run_id, "RUNNING")
    (job,) = list_seen(lab, "jobs")
    await delete(lab, f"/apis/batch/v1/namespaces/{lab.namespace}/jobs/{job.name}?propagationPolicy=Background")
    status = await lab.wait_for_state(run_id, "ERROR")
    assert status["reason"] == "run.lost"
    await wait_until_complete(lab, run_id)
    evidence = await judge(lab, Tampering(0.0, "jobs", job.name, run_id))
    assert count_creations(evidence) == 1


async def test_run_is_lost_when_its_job_was_deleted_while_no_server_lived(lab: Lab, run_id: str) -> None:
    await lab.submit(make_endless(run_id))
    await wait_for_pod(lab, run_id)
    await lab.wait_for_state(run_id, "RUNNING")
    (replica,) = lab.servers.replicas
    await replica.kill()
    (job,) = list_seen(lab, "jobs")
    await delete(lab, f"/apis/batch/v1/namespaces/{lab.namespace}/jobs/{job.name}?propagationPolicy=Background")

    async def are_gone() -> bool:
        return all(pod.is_deleted for pod in list_seen(lab, "pods"))

    await wait_until(are_gone)
    await replica.start()
    status = await lab.wait_for_state(run_id, "ERROR")
    assert status["reason"] == "run.lost"
    await wait_until_complete(lab, run_id)
    # Nobody read what the pod printed meanwhile: a gap says so.
    await judge(lab, Tampering(0.0, "jobs", job.name, run_id))


async def test_another_pod_completes_the_run_when_somebody_deletes_the_first(lab: Lab, run_id: str) -> None:
    graces = {f"{run_id}-{grace}": grace for grace in (0, 5)}
    tamperings = []
    for each, grace in graces.items():
        await lab.submit(make_workload(each, lines=15, pause_seconds=0.8, backoff_limit=2))
        pod = await wait_for_pod(lab, each)
        await lab.wait_for_state(each, "RUNNING")
        await delete(lab, f"/api/v1/namespaces/{lab.namespace}/pods/{pod.name}?gracePeriodSeconds={grace}")
        tamperings.append(Tampering(0.0, "pods", pod.name, each))
    for each in graces:
        await lab.wait_for_state(each, "COMPLETED")
        await wait_until_complete(lab, each)
    evidences = await lab.collect(tamperings)
    assert_clean(evidences)
    assert [len(evidence.pods) for evidence in evidences] == [2, 2]


async def test_run_fails_with_a_reason_when_somebody_deletes_its_only_pod(lab: Lab, run_id: str) -> None:
    await lab.submit(make_endless(run_id))
    pod = await wait_for_pod(lab, run_id)
    await delete(lab, f"/api/v1/namespaces/{lab.namespace}/pods/{pod.name}?gracePeriodSeconds=1")
    status = await lab.wait_for_state(run_id, "ERROR")
    assert status["reason"]
    await wait_until_complete(lab, run_id)
    await judge(lab, Tampering(0.0, "pods", pod.name, run_id))


QUOTAS = ["count/jobs.batch", "count/secrets", "pods"]
"""What refuses the anchor, a dependent, and the pod."""


@pytest.mark.parametrize("resource", QUOTAS)
async def test_run_waits_with_the_figures_and_goes_on_when_the_quota_was_full(
    lab: Lab, run_id: str, resource: str
) -> None:
    path = await fill_quota(lab.cluster, lab.namespace, {resource: "0"})
    await lab.submit(make_workload(run_id))
    status = await lab.wait_for(run_id, lambda status: status.get("reason") == "quota.exceeded")
    assert status["state"] == "PENDING"
    figures = f"the resource quota full has no room ({resource}: 1 requested, 0 of 0 used)"
    assert status["message"] == f"{figures}; the run goes on when there is room"
    await delete(lab, path)
    await lab.wait_for_state(run_id, "COMPLETED")
    await wait_until_complete(lab, run_id)
    await judge(lab)


@pytest.mark.parametrize("resource", QUOTAS)
async def test_run_fails_in_time_when_the_quota_stays_full(lab: Lab, run_id: str, resource: str) -> None:
    await fill_quota(lab.cluster, lab.namespace, {resource: "0"})
    await lab.submit(make_workload(run_id, pending_timeout_seconds=15))
    await lab.wait_for(run_id, lambda status: status.get("reason") == "quota.exceeded")
    status = await lab.wait_for_state(run_id, "ERROR")
    assert status["reason"] == "timeout.pending"
    await wait_until_complete(lab, run_id)
    await judge(lab)
    assert not [pod for pod in list_seen(lab, "pods") if pod.has_started]


async def test_pending_run_names_its_claim_when_somebody_deleted_that(lab: Lab, run_id: str) -> None:
    # No pod can start, so that the claim can really go: a quota lets none be created.
    path = await fill_quota(lab.cluster, lab.namespace, {"pods": "0"})
    await lab.submit(make_workload(run_id, has_volume=True))
    claims = f"/api/v1/namespaces/{lab.namespace}/persistentvolumeclaims"
    listed: list[dict[str, Any]] = []

    async def has_claim() -> bool:
        listed[:] = (await asyncio.to_thread(lab.cluster.api.get, claims))["items"]
        return bool(listed)

    await wait_until(has_claim)
    await delete(lab, f"{claims}/{listed[0]['metadata']['name']}")
    await delete(lab, path)
    status = await lab.wait_for(run_id, lambda status: "claim" in (status.get("message") or ""))
    assert status["state"] == "PENDING"
    await lab.stop(run_id)
    await lab.wait_for_state(run_id, "STOPPED")
    await judge(lab)


@pytest.mark.parametrize("component", ["kube-apiserver", "etcd", "kubelet"])
async def test_run_completes_with_every_line_when_a_component_is_killed(lab: Lab, run_id: str, component: str) -> None:
    await lab.submit(make_workload(run_id, lines=40, pause_seconds=0.1))
    await wait_for_pod(lab, run_id)
    try:
        await asyncio.to_thread(lab.cluster.kill, component)
        await asyncio.sleep(1.0)
    finally:
        await asyncio.to_thread(lab.cluster.start, component)
    await asyncio.to_thread(lab.cluster.wait_ready)
    await lab.wait_for_state(run_id, "COMPLETED")
    await wait_until_complete(lab, run_id)
    await judge(lab)


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_run_says_that_its_node_is_unreachable_when_the_kubelet_is_frozen(lab: Lab, run_id: str) -> None:
    await lab.submit(make_workload(run_id, lines=40, pause_seconds=1.0))
    await wait_for_pod(lab, run_id)
    await asyncio.to_thread(lab.cluster.freeze, "kubelet")
    try:
        status = await lab.wait_for(run_id, lambda status: status.get("reason") == "node.unreachable")
        assert status["state"] in ("PENDING", "RUNNING")
        assert lab.cluster.node_name in status["message"]
    finally:
        await asyncio.to_thread(lab.cluster.thaw, "kubelet")
    # The pod was evicted, which uses up no retry: another one runs to the end.
    await lab.wait_for_state(run_id, "COMPLETED")
    await wait_until_complete(lab, run_id)
    await judge(lab)


@pytest.mark.long
@pytest.mark.timeout(420)
async def test_gap_has_span_and_cause_when_a_pod_goes_with_its_node(lab: Lab, run_id: str) -> None:
    await lab.submit(make_workload(run_id, lines=60, pause_seconds=0.5))
    pod = await wait_for_pod(lab, run_id)
    await wait_until(partial(has_log, lab, run_id))
    node = f"/api/v1/nodes/{lab.cluster.node_name}"

    async def is_gone() -> bool:
        return any(one.name == pod.name and one.is_deleted for one in list_seen(lab, "pods"))

    await asyncio.to_thread(lab.cluster.freeze, "kubelet")
    try:
        await lab.wait_for(run_id, lambda status: status.get("reason") == "node.unreachable")
        # With its node gone for good, the cluster gives the pod up: after a minute.
        await delete(lab, node)
        await wait_until(is_gone, seconds=180)
    finally:
        await asyncio.to_thread(lab.cluster.kill, "kubelet")
        await asyncio.to_thread(lab.cluster.start, "kubelet")
    status = await lab.wait_for_state(run_id, "COMPLETED")
    assert [end["reason"] for end in status["ends"] if end.get("pod") == pod.name] == ["node.lost"]
    await wait_until_complete(lab, run_id)
    await judge(lab, Tampering(0.0, "pods", pod.name, run_id))
    answer = await lab.servers.ask("GET", f"{BASE}/runs/{run_id}/log")
    marks = [json.loads(found[1]) for found in re.finditer(r"^#runyard-\w+ (\{.*\})$", answer.text, flags=re.MULTILINE)]
    (gap,) = (mark for mark in marks if "gap" in mark)
    assert gap["gap"].startswith("node lost:")
    assert gap["since"] < gap["until"]


async def has_log(lab: Lab, run_id: str) -> bool:
    """Whether something of its output is stored."""
    return any(log.pieces for log in (await lab.read_logs(run_id)).values())
