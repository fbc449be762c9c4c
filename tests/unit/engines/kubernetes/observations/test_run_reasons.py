"""Why a run is in its state, where no recorded status says it."""

import json
from typing import Any

import pytest

from runyard.app.engine import LONGEST_MESSAGE_BYTES
from runyard.domain.outcomes import Seen
from runyard.domain.reasons import Reason
from runyard.engines.kubernetes.observations import observe_run
from runyard.engines.kubernetes.observations.container_faults import MOST_LAST_LINES
from runyard.engines.kubernetes.views import PodView
from tests.unit.engines.kubernetes.observations.objects import (
    NAME,
    READY,
    RUNNING,
    ended,
    make_claim,
    make_condition,
    make_container,
    make_deployment,
    make_event,
    make_job,
    make_pod,
    make_run,
    waiting,
)
from tests.unit.engines.kubernetes.observations.recorded import make_recorded

POD = f"{NAME}-a"
KILLED = make_container(ended(137))
WORKS = make_pod("Running", make_container(RUNNING), conditions=[READY])
SINCE = (("node-1", "2026-11-16T10:05:00Z"),)


def disrupted(reason: str, message: str = "") -> dict[str, str]:
    return make_condition("DisruptionTarget", reason=reason, message=message)


@pytest.mark.parametrize(
    ("pod", "reason", "message"),
    [
        (
            make_pod(
                "Failed", KILLED, reason="Evicted", message="The node was low on resource: memory. Threshold 100Mi."
            ),
            Reason.NODE_PRESSURE,
            f"pod {POD} was evicted by its node: The node was low on resource: memory. Threshold 100Mi.",
        ),
        (
            make_pod(
                "Failed", KILLED, reason="Evicted", message="The node was low on resource: ephemeral-storage. Used."
            ),
            Reason.NODE_PRESSURE,
            f"pod {POD} was evicted by its node: The node was low on resource: ephemeral-storage. Used.",
        ),
        (
            make_pod(
                "Failed",
                KILLED,
                reason="Evicted",
                message="Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
            ),
            Reason.DISK_EXCEEDED,
            (
                f"pod {POD} used more disk than its limit:"
                " Pod ephemeral local storage usage exceeds the total limit of containers 1Gi."
            ),
        ),
        (
            make_pod(
                "Failed",
                KILLED,
                reason="Terminated",
                message="Pod was terminated in response to imminent node shutdown.",
            ),
            Reason.NODE_SHUTDOWN,
            (
                f"pod {POD} was ended because its node was shut down:"
                " Pod was terminated in response to imminent node shutdown."
            ),
        ),
        (
            make_pod("Failed", KILLED, reason="NodeLost", message="Node node-1 which was running pod is unresponsive"),
            Reason.NODE_LOST,
            f"the node of pod {POD} does not answer anymore: Node node-1 which was running pod is unresponsive",
        ),
        (
            make_pod("Failed", reason="OutOfcpu", message="Pod was rejected: Node didn't have enough resource: cpu"),
            Reason.NODE_REFUSED,
            f"the node refused pod {POD}: OutOfcpu: Pod was rejected: Node didn't have enough resource: cpu",
        ),
        (
            make_pod("Failed", KILLED, reason="Preempting", message="Preempted in order to admit critical pod"),
            Reason.POD_PREEMPTED,
            f"pod {POD} was preempted on its node: Preempted in order to admit critical pod",
        ),
        (
            make_pod(
                "Failed", KILLED, conditions=[disrupted("TerminationByKubelet", "Pod was terminated: node shutdown")]
            ),
            Reason.NODE_SHUTDOWN,
            f"pod {POD} was ended because its node was shut down: Pod was terminated: node shutdown",
        ),
        (
            make_pod("Failed", KILLED, conditions=[disrupted("DeletionByPodGC", "PodGC: node no longer exists")]),
            Reason.NODE_LOST,
            f"pod {POD} was given up, because its node does not exist anymore: PodGC: node no longer exists",
        ),
        (
            make_pod("Failed", KILLED, conditions=[disrupted("DeletionByTaintManager")]),
            Reason.NODE_LOST,
            f"pod {POD} was removed from its node, whose taint it does not tolerate",
        ),
        (
            make_pod("Failed", KILLED, deleted_at="2026-11-16T10:03:00Z"),
            Reason.POD_DELETED,
            f"somebody deleted pod {POD} while it worked",
        ),
        (
            make_pod("Failed", make_container(ended(3)), deleted_at="2026-11-16T10:03:00Z"),
            Reason.RUN_FAILED,
            "container main ended with exit code 3",
        ),
        (
            make_pod("Failed", make_container(ended(137, "OOMKilled")), deleted_at="2026-11-16T10:03:00Z"),
            Reason.MEMORY_EXCEEDED,
            "out of memory: the machine had no more; set resources.mem to what it needs",
        ),
        (
            make_pod(
                "Failed",
                make_container(ended(137, "OOMKilled", json.dumps({"runyard": 1, "peak_bytes": 900 << 20}))),
                limits={"memory": "1Gi"},
                requests={"memory": "512Mi"},
            ),
            Reason.MEMORY_EXCEEDED,
            "out of memory: it used 900Mi and its limit is 1Gi; try resources.mem: 1280Mi",
        ),
        (
            make_pod("Failed", make_container(ended(137, "OOMKilled")), limits={"memory": "x" * 99}),
            Reason.MEMORY_EXCEEDED,
            "out of memory: the machine had no more; set resources.mem to what it needs",
        ),
        (
            make_pod("Failed", make_container(ended(139))),
            Reason.RUN_FAILED,
            "container main was killed by SIGSEGV (exit code 139)",
        ),
        (
            make_pod("Failed", make_container(ended(0, signal=64))),
            None,
            None,
        ),
        (
            make_pod("Failed", make_container(ended(255))),
            Reason.RUN_FAILED,
            "container main ended with exit code 255",
        ),
        (
            make_pod("Failed", make_container(ended(137, "ContainerStatusUnknown"), containerID="containerd://a")),
            Reason.RUN_FAILED,
            "container main is gone, and its exit code is not known",
        ),
        (
            make_pod("Failed", make_container(ended(2, message="Error on reading termination message from logs: x"))),
            Reason.RUN_FAILED,
            "container main ended with exit code 2",
        ),
    ],
)
def test_failure_is_explained_when_a_pod_has_failed(pod: PodView, reason: Reason | None, message: str | None) -> None:
    found = observe_run(make_run(make_job("run", podFailurePolicy=None), pod))
    assert (found.seen, found.reason, found.message) == (Seen.FAILED, reason, message)


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        (
            {"conditions": [disrupted("TerminationByKubelet", "The node was low on resource: memory.")]},
            Reason.NODE_PRESSURE,
        ),
        ({"conditions": [disrupted("TerminationByKubelet", "node shutdown")]}, Reason.NODE_SHUTDOWN),
        ({"conditions": [disrupted("DeletionByPodGC")]}, Reason.NODE_LOST),
        ({"conditions": [disrupted("DeletionByTaintManager")]}, Reason.NODE_LOST),
        ({"conditions": [disrupted("PreemptionByScheduler")]}, Reason.POD_PREEMPTED),
    ],
)
def test_run_waits_for_another_pod_without_retries_when_the_cluster_ended_the_first(
    ends: dict[str, Any], reason: Reason
) -> None:
    pod = make_pod("Failed", KILLED, **ends)
    found = observe_run(make_run(make_job("run"), pod))
    assert (found.seen, found.reason) == (Seen.PENDING, reason)
    assert str(found.message).endswith("; the run is started again, which uses up no retry")
    counted = observe_run(make_run(make_job("run", podFailurePolicy=None), pod))
    assert (counted.seen, counted.reason) == (Seen.FAILED, reason)


def test_last_lines_are_told_when_a_program_wrote_many() -> None:
    pod = make_pod("Failed", make_container(ended(1, message="\n".join(f"line {number}" for number in range(80)))))
    found = observe_run(make_run(make_job("run"), pod))
    assert found.message is not None
    assert found.message.startswith(f"container main ended with exit code 1; last lines: line {80 - MOST_LAST_LINES}\n")
    assert found.message.endswith("\nline 79")


def test_message_is_cut_when_a_cluster_says_much() -> None:
    pod = make_pod("Failed", reason="Evicted", message="ä" * 9000)
    found = observe_run(make_run(make_job("run"), pod))
    assert found.message is not None
    assert len(found.message.encode()) <= LONGEST_MESSAGE_BYTES


def test_node_is_named_with_the_time_when_it_does_not_answer() -> None:
    assert observe_run(make_run(make_job("run"), WORKS)).reason is None
    for anchor in (make_job("run"), make_job("stop"), make_deployment("run")):
        found = observe_run(make_run(anchor, WORKS, unready_nodes=SINCE))
        assert (found.seen, found.reason) == (Seen.RUNNING, Reason.NODE_UNREACHABLE)
        assert found.message == (
            f"the node node-1 is unreachable since 2026-11-16T10:05:00Z; whether pod {POD} goes on is not known"
        )


def test_nothing_is_said_of_a_node_when_another_one_does_not_answer() -> None:
    found = observe_run(make_run(make_job("run"), WORKS, unready_nodes=(("node-2", ""),)))
    assert (found.seen, found.reason) == (Seen.RUNNING, None)


def test_eviction_is_told_when_the_pod_still_runs() -> None:
    pod = make_pod(
        "Running",
        make_container(RUNNING),
        conditions=[READY, disrupted("EvictionByEvictionAPI", "Eviction API: evicting")],
        deleted_at="2026-11-16T10:03:00Z",
    )
    found = observe_run(make_run(make_job("run"), pod))
    assert (found.seen, found.reason) == (Seen.RUNNING, Reason.POD_EVICTED)


def test_quota_is_told_when_a_retry_finds_no_room() -> None:
    failed = make_pod("Failed", make_container(ended(3)))
    refusal = (
        'Error creating: pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2'
    )
    job = make_job("run", backoffLimit=2)
    later = make_event("FailedCreate", refusal, kind="Job", at="2026-11-16T10:02:00Z")
    earlier = make_event("FailedCreate", refusal, kind="Job", at="2026-11-16T10:00:30Z")
    assert observe_run(make_run(job, failed, events=(later,))).reason is Reason.QUOTA_EXCEEDED
    found = observe_run(make_run(job, failed, events=(earlier,)))
    assert (found.seen, found.reason) == (Seen.PENDING, Reason.RUN_RETRYING)


def test_refusal_of_another_object_is_ignored_when_it_has_the_same_reason() -> None:
    other = make_event("FailedCreate", "no room", kind="Job")
    other = type(other)(metadata=other.metadata, involved=type(other.involved)(uid="other"), reason=other.reason)
    found = observe_run(make_run(make_job("run"), events=(other,)))
    assert (found.reason, found.message) == (Reason.ENGINE_RELEASED, "waits for its pod to be created")


def test_run_goes_on_when_the_quota_has_room_again() -> None:
    refused = make_recorded("quota-job")
    assert observe_run(refused).seen is Seen.PENDING
    found = observe_run(make_run(refused.anchor, WORKS, events=refused.events))
    assert (found.seen, found.reason) == (Seen.RUNNING, None)


@pytest.mark.parametrize(
    ("pods", "seen", "reason", "message"),
    [
        (
            (WORKS, make_pod("Pending", make_container(waiting("ContainerCreating")), name="b")),
            Seen.RUNNING,
            Reason.SERVICE_UNREADY,
            "1 of 3 replicas are ready: is being prepared on its node: volumes and network",
        ),
        (
            (make_pod("Running", make_container(waiting("CrashLoopBackOff"), ended(4), restartCount=7)),),
            Seen.PENDING,
            Reason.CRASH_LOOP,
            (
                "0 of 3 replicas are ready: container main is started again (restarts so far: 7);"
                " last time: container main ended with exit code 4"
            ),
        ),
        ((), Seen.PENDING, Reason.ENGINE_RELEASED, "0 of 3 replicas are ready: waits for its pod to be created"),
        ((WORKS, WORKS, WORKS), Seen.RUNNING, None, None),
    ],
)
def test_replicas_are_counted_when_some_are_not_ready(
    pods: tuple[PodView, ...], seen: Seen, reason: Reason | None, message: str | None
) -> None:
    found = observe_run(make_run(make_deployment("run", replicas=3), *pods))
    assert (found.seen, found.reason, found.message) == (seen, reason, message)


def test_refused_replica_is_told_when_the_others_run() -> None:
    refused = make_condition(
        "ReplicaFailure", message="exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
    )
    found = observe_run(make_run(make_deployment("run", refused, replicas=2), WORKS))
    assert (found.seen, found.reason) == (Seen.RUNNING, Reason.QUOTA_EXCEEDED)
    assert found.message == (
        "1 of 2 replicas are ready: the resource quota q has no room (pods: 1 requested, 1 of 1 used);"
        " the run goes on when there is room"
    )


def test_claims_are_named_when_the_scheduler_waits_for_them() -> None:
    unbound = make_condition(
        "PodScheduled",
        "False",
        reason="Unschedulable",
        message="0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
    )
    pod = make_pod("Pending", node=None, conditions=[unbound])
    claims = (make_claim("a"), make_claim("b", storage_class="slow"), make_claim("c", phase="Bound"))
    found = observe_run(make_run(make_job("run"), pod, claims=claims))
    assert found.reason is Reason.VOLUME_UNBOUND
    assert found.message == (
        "the claim a is not bound (the default storage class); the claim b is not bound (storage class slow)"
    )
    alone = observe_run(make_run(make_job("run"), pod))
    assert alone.message == "a claim of the run is not bound"


@pytest.mark.parametrize(
    ("message", "reason", "told"),
    [
        (
            "couldn't find key TOKEN in Secret team-a/run-secrets",
            Reason.SECRET_MISSING,
            "the Secret run-secrets has no key TOKEN",
        ),
        (
            "couldn't find key a.txt in ConfigMap team-a/files",
            Reason.CONFIG_MISSING,
            "the ConfigMap files has no key a.txt",
        ),
        (
            "container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root",
            Reason.IMAGE_ROOT,
            (
                "the image registry.example/team/train:1 runs as root, which is not allowed;"
                " set run_as_user: 1000, or use an image with a non-root user"
            ),
        ),
        (
            "failed to prepare subPath for volumeMount",
            Reason.CONFIG_MISSING,
            "container main cannot be configured: failed to prepare subPath for volumeMount",
        ),
    ],
)
def test_configuration_is_named_when_a_container_cannot_be_configured(message: str, reason: Reason, told: str) -> None:
    pod = make_pod("Pending", make_container(waiting("CreateContainerConfigError", message)))
    found = observe_run(make_run(make_job("run"), pod))
    assert (found.reason, found.message) == (reason, told)


@pytest.mark.parametrize(
    ("event", "said", "reason", "told"),
    [
        (
            "FailedCreatePodSandBox",
            'Failed to create pod sandbox: plugin type="calico" failed: no addresses are left',
            Reason.SANDBOX_FAILED,
            'Failed to create pod sandbox: plugin type="calico" failed: no addresses are left',
        ),
        (
            "FailedAttachVolume",
            'Multi-Attach error for volume "pvc-1": it is used by another pod',
            Reason.MOUNT_FAILED,
            'a volume cannot be mounted: Multi-Attach error for volume "pvc-1": it is used by another pod',
        ),
    ],
)
def test_node_is_quoted_when_it_cannot_prepare_the_pod(event: str, said: str, reason: Reason, told: str) -> None:
    events = (make_event(event, said),)
    found = observe_run(make_run(make_job("run"), make_pod("Pending", name=NAME), events=events))
    assert (found.seen, found.reason, found.message) == (Seen.PENDING, reason, told)
    works = make_pod("Running", make_container(RUNNING), name=NAME, conditions=[READY])
    started = observe_run(make_run(make_job("run"), works, events=events))
    assert (started.seen, started.reason) == (Seen.RUNNING, None)


def test_nothing_is_explained_when_a_run_is_held_or_done_or_stopped() -> None:
    done = make_pod("Succeeded", make_container(ended(0)))
    stopped = make_pod("Failed", make_container(ended(143)), reason="DeadlineExceeded")
    for objects in (make_run(make_job("hold")), make_run(make_job("run"), done), make_run(make_job("stop"), stopped)):
        found = observe_run(objects)
        assert (found.reason, found.message) == (None, None)
