"""Why a pod waits, and why one failed."""

from collections.abc import Sequence

from runyard.domain.reasons import Reason
from runyard.engines.kubernetes.observations.container_exits import OUT_OF_MEMORY
from runyard.engines.kubernetes.observations.container_faults import (
    explain_container,
    explain_end,
    find_permanent_fault,
)
from runyard.engines.kubernetes.observations.events import find_latest
from runyard.engines.kubernetes.observations.explanations import Explanation
from runyard.engines.kubernetes.observations.pod_steps import (
    DEADLINE_EXCEEDED,
    PodStep,
    find_condition,
    find_ended,
    find_step,
    has_condition,
    has_started,
    iter_statuses,
)
from runyard.engines.kubernetes.run_objects import RunObjects
from runyard.engines.kubernetes.views import ClaimView, EventView, PodView
from runyard.pods.scheduler_message import ObstacleKind, Unschedulable, read_scheduler_message

MOST_CLAIMS = 10
"""How many claims that are not bound a message names."""
MOUNT_EVENTS = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
_STEPS = {
    PodStep.SCHEDULING: "waits for a node",
    PodStep.PREPARING: "is being prepared on its node: volumes and network",
    PodStep.PULLING: "its image is being pulled, or its container created",
    PodStep.INIT: "its init containers are running",
    PodStep.RUNNING: "was started, and is not ready yet",
    PodStep.RESTARTING: "is started again",
    PodStep.DRAINING: "is being stopped",
}
_DISRUPTIONS = {
    "EvictionByEvictionAPI": (Reason.POD_EVICTED, "was evicted (its node is drained, or an operator asked for it)"),
    "PreemptionByScheduler": (Reason.POD_PREEMPTED, "was preempted by a pod of a higher priority"),
    "DeletionByTaintManager": (
        Reason.NODE_LOST,
        "was removed from its node, whose taint it does not tolerate",
    ),
    "DeletionByPodGC": (Reason.NODE_LOST, "was given up, because its node does not exist anymore"),
    "TerminationByKubelet": (Reason.NODE_PRESSURE, "was ended by its node"),
}
_PLACEMENTS = {
    ObstacleKind.RESOURCES: Reason.RESOURCES_WAITING,
    ObstacleKind.PLACEMENT: Reason.PLACEMENT_UNMATCHED,
    ObstacleKind.VOLUMES: Reason.VOLUME_UNBOUND,
    ObstacleKind.OTHER: Reason.PLACEMENT_UNMATCHED,
}
SHUTDOWNS = frozenset({"Terminated", "NodeShutdown", "Shutdown"})


def explain_waiting_pod(objects: RunObjects, pod: PodView) -> Explanation:
    """Why a pod that has not finished does not work."""
    return (
        explain_lost_node(objects, pod)
        or explain_disruption(pod)
        or _explain_unscheduled(objects, pod)
        or find_permanent_fault(pod)
        or _explain_containers(pod)
        or _explain_preparation(objects, pod)
        or _explain_probe(objects, pod)
        or Explanation(Reason.ENGINE_RELEASED, _STEPS.get(find_step(pod), "waits"))
    )


def explain_lost_node(objects: RunObjects, pod: PodView) -> Explanation | None:
    """The pod's node does not answer."""
    since = next((since for node, since in objects.unready_nodes if node == pod.spec.node_name), None)
    if since is None or not pod.spec.node_name:
        return None
    when = f" since {since}" if since else ""
    return Explanation(
        Reason.NODE_UNREACHABLE,
        f"the node {pod.spec.node_name} is unreachable{when}; whether pod {pod.metadata.name} goes on is not known",
    )


def explain_disruption(pod: PodView) -> Explanation | None:
    """The cluster ends the pod, for a reason of its own."""
    found = find_condition(pod.status.conditions, "DisruptionTarget")
    if found is None or found.status != "True":
        return None
    reason, text = _DISRUPTIONS.get(found.reason, (Reason.POD_EVICTED, f"was disrupted ({found.reason})"))
    if found.reason == "TerminationByKubelet" and (pod.status.reason in SHUTDOWNS or "shutdown" in found.message):
        reason, text = Reason.NODE_SHUTDOWN, "was ended because its node was shut down"
    said = f": {found.message}" if found.message else ""
    return Explanation(reason, f"pod {pod.metadata.name} {text}{said}")


def explain_failed_pod(pod: PodView) -> Explanation | None:
    """Why a pod has failed."""
    return _explain_kubelet(pod) or explain_disruption(pod) or _explain_ends(pod)


def explain_loss(pod: PodView) -> Explanation | None:
    """Why the cluster ended or refused a pod; None if its containers ended by themselves, or somebody stopped it."""
    if pod.status.phase == "Succeeded" or pod.status.reason == DEADLINE_EXCEEDED:
        return None
    return _explain_kubelet(pod) or explain_disruption(pod)


def _explain_kubelet(pod: PodView) -> Explanation | None:
    """The kubelet ended or refused the whole pod."""
    said, name = pod.status.message.strip(), pod.metadata.name
    reason = pod.status.reason
    if not reason:
        return None
    if reason == "Evicted":
        is_own = "phemeral" in said and "low on resource" not in said
        if is_own or "EmptyDir" in said:
            return Explanation(Reason.DISK_EXCEEDED, f"pod {name} used more disk than its limit: {said}")
        return Explanation(Reason.NODE_PRESSURE, f"pod {name} was evicted by its node: {said}")
    if reason in SHUTDOWNS:
        return Explanation(Reason.NODE_SHUTDOWN, f"pod {name} was ended because its node was shut down: {said}")
    if reason == DEADLINE_EXCEEDED:
        return Explanation(Reason.TIMEOUT_RUN, f"pod {name} reached its deadline, which somebody set on it: {said}")
    if reason == "NodeLost":
        return Explanation(Reason.NODE_LOST, f"the node of pod {name} does not answer anymore: {said}")
    if reason.startswith("Preempt"):
        return Explanation(Reason.POD_PREEMPTED, f"pod {name} was preempted on its node: {said}")
    return Explanation(Reason.NODE_REFUSED, f"the node refused pod {name}: {reason}: {said}")


def _explain_ends(pod: PodView) -> Explanation | None:
    for status in iter_statuses(pod):
        ended = find_ended(status) or status.last_state.terminated
        if ended is None or ended.exit_code == 0:
            continue
        if pod.metadata.deleted_at and ended.exit_code in (137, 143) and ended.reason != OUT_OF_MEMORY:
            break
        return explain_end(pod, status, ended)
    if pod.metadata.deleted_at:
        when = "while it worked" if has_started(pod) else "before a start was reported"
        return Explanation(Reason.POD_DELETED, f"somebody deleted pod {pod.metadata.name} {when}")
    return None


def _explain_unscheduled(objects: RunObjects, pod: PodView) -> Explanation | None:
    found = find_condition(pod.status.conditions, "PodScheduled")
    if found is None or found.status == "True" or pod.spec.node_name:
        return None
    if found.reason == "SchedulingGated":
        return Explanation(Reason.PLACEMENT_GATED, f"pod {pod.metadata.name} is held back: {found.message}")
    said = read_scheduler_message(found.message)
    if said is None:
        return Explanation(Reason.PLACEMENT_UNMATCHED, found.message) if found.message else None
    if said.kind is ObstacleKind.VOLUMES:
        return Explanation(Reason.VOLUME_UNBOUND, _describe_claims(objects) or _describe_volumes(said))
    asked = _describe_requests(pod) if said.kind is ObstacleKind.RESOURCES else ""
    return Explanation(_PLACEMENTS[said.kind], f"{said.text}{asked}")


def _describe_volumes(said: Unschedulable) -> str:
    """What holds for every node is told without counting them."""
    of_all = [obstacle.text for obstacle in said.obstacles if obstacle.nodes == 0]
    return "; ".join(of_all) if of_all else said.text


def _describe_claims(objects: RunObjects) -> str:
    """The claims that have no volume, their storage class, and what was said of it."""
    unbound = [claim for claim in objects.claims if claim.status.phase != "Bound"]
    return "; ".join(_describe_claim(claim, objects.events) for claim in unbound[:MOST_CLAIMS])


def _describe_claim(claim: ClaimView, events: Sequence[EventView]) -> str:
    storage_class = claim.spec.storage_class
    of_class = f"storage class {storage_class}" if storage_class else "the default storage class"
    state = "has lost its volume" if claim.status.phase == "Lost" else "is not bound"
    told = find_latest(events, ("ProvisioningFailed", "FailedBinding"), uid=claim.metadata.uid)
    if told is None:
        return f"the claim {claim.metadata.name} {state} ({of_class})"
    if storage_class and "storageclass" in told.message and "not found" in told.message:
        return f"the claim {claim.metadata.name} {state}: the cluster has no storage class {storage_class}"
    return f"the claim {claim.metadata.name} {state} ({of_class}): {told.message}"


def _describe_requests(pod: PodView) -> str:
    asked = [
        f"{name} {amount}"
        for container in pod.spec.containers[:1]
        for name, amount in (
            ("cpu", container.resources.requests.cpu),
            ("memory", container.resources.requests.memory),
            ("disk", container.resources.requests.disk),
            ("nvidia.com/gpu", container.resources.requests.nvidia_gpu),
            ("amd.com/gpu", container.resources.requests.amd_gpu),
        )
        if amount
    ]
    return f"; the run requests {', '.join(asked)}" if asked else ""


def _explain_containers(pod: PodView) -> Explanation | None:
    for status in iter_statuses(pod):
        found = explain_container(pod, status)
        if found is not None:
            return found
    return None


def _explain_preparation(objects: RunObjects, pod: PodView) -> Explanation | None:
    """What the kubelet says of volumes and network: only in events."""
    if find_step(pod) is not PodStep.PREPARING:
        return None
    told = find_latest(objects.events, (*MOUNT_EVENTS, "FailedCreatePodSandBox"), uid=pod.metadata.uid)
    if told is None:
        return None
    if told.reason in MOUNT_EVENTS:
        return Explanation(Reason.MOUNT_FAILED, f"a volume cannot be mounted: {told.message}")
    if "no runtime for" in told.message:
        return Explanation(
            Reason.RUNTIME_CLASS_MISSING, f"the node cannot execute the runtime class of the run: {told.message}"
        )
    return Explanation(Reason.SANDBOX_FAILED, told.message)


def _explain_probe(objects: RunObjects, pod: PodView) -> Explanation | None:
    if find_step(pod) is not PodStep.RUNNING or has_condition(pod.status.conditions, "Ready"):
        return None
    told = find_latest(objects.events, ("Unhealthy",), uid=pod.metadata.uid)
    if told is None:
        return None
    return Explanation(Reason.SERVICE_UNREADY, f"was started, and is not ready yet: {told.message}")
