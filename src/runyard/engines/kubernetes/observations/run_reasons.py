"""Why a run is in its state. A state that is as it should be needs no reason."""

from runyard.domain.outcomes import Seen
from runyard.domain.reasons import Reason
from runyard.engines.kubernetes.observations.container_faults import find_permanent_fault
from runyard.engines.kubernetes.observations.events import find_latest, find_time
from runyard.engines.kubernetes.observations.explanations import Explanation
from runyard.engines.kubernetes.observations.pod_faults import (
    explain_disruption,
    explain_failed_pod,
    explain_lost_node,
    explain_waiting_pod,
)
from runyard.engines.kubernetes.observations.pod_steps import (
    DEADLINE_EXCEEDED,
    find_condition,
    is_disrupted,
    is_ready,
    iter_statuses,
)
from runyard.engines.kubernetes.observations.run_states import count_failures, list_failed, list_unfinished
from runyard.engines.kubernetes.run_objects import RunObjects
from runyard.engines.kubernetes.views import DeploymentView, JobView, PodView
from runyard.manifests.patches import JOB_END_SECONDS
from runyard.pods.creation_refusal import RefusalKind, read_refusal

_REFUSALS = {
    RefusalKind.QUOTA: Reason.QUOTA_EXCEEDED,
    RefusalKind.RUNTIME_CLASS: Reason.RUNTIME_CLASS_MISSING,
    RefusalKind.PRIORITY_CLASS: Reason.PRIORITY_CLASS_MISSING,
    RefusalKind.SERVICE_ACCOUNT: Reason.SERVICE_ACCOUNT_MISSING,
    RefusalKind.ADMISSION: Reason.ADMISSION_REFUSED,
}


def explain_run(objects: RunObjects, seen: Seen) -> Explanation | None:
    """The reason and message of a state; None if there is nothing to explain."""
    anchor = objects.anchor
    if anchor.metadata.annotations.wish == "stop" and seen is not Seen.FAILED:
        return _explain_loss(objects)
    if isinstance(anchor, DeploymentView):
        return _explain_service(objects, anchor, seen)
    if seen is Seen.PENDING:
        return _explain_pending_job(objects, anchor)
    if seen is Seen.FAILED:
        return _explain_failure(objects, anchor)
    return _explain_loss(objects) if seen is Seen.RUNNING else None


def _explain_loss(objects: RunObjects) -> Explanation | None:
    """What happens to a pod that runs: its node is lost, or the cluster ends it."""
    for pod in reversed(list_unfinished(objects)):
        found = explain_lost_node(objects, pod) or explain_disruption(pod)
        if found is not None:
            return found
    return None


def _explain_pending_job(objects: RunObjects, job: JobView) -> Explanation:
    unfinished, failed = list_unfinished(objects), list_failed(objects)
    if unfinished:
        return explain_waiting_pod(objects, unfinished[-1])
    if job.spec.suspend:
        return Explanation(Reason.PLACEMENT_GATED, "the Job is suspended, but not by Runyard")
    refusal = find_latest(objects.events, ("FailedCreate",), uid=job.metadata.uid)
    if refusal is not None and find_time(refusal) >= max((_find_end(pod) for pod in failed), default=""):
        return explain_refusal(refusal.message)
    if failed:
        return _explain_retry(objects, job, failed[-1])
    return Explanation(Reason.ENGINE_RELEASED, "waits for its pod to be created")


def _explain_retry(objects: RunObjects, job: JobView, last: PodView) -> Explanation:
    how = explain_failed_pod(last) or Explanation(Reason.RUN_FAILED, "its pod failed")
    if job.spec.failure_policy is not None and is_disrupted(last):
        return Explanation(how.reason, f"{how.message}; the run is started again, which uses up no retry")
    attempt = f"attempt {count_failures(objects, job)} of {job.spec.backoff_limit + 1} failed"
    return Explanation(Reason.RUN_RETRYING, f"{attempt}, the run is started again; last time: {how.message}")


def _explain_failure(objects: RunObjects, job: JobView) -> Explanation | None:
    for pod in list_unfinished(objects)[-1:]:
        return find_permanent_fault(pod)
    target = find_condition(job.status.conditions, "Failed") or find_condition(job.status.conditions, "FailureTarget")
    is_deadline = target is not None and target.status == "True" and target.reason == DEADLINE_EXCEEDED
    if is_deadline and job.spec.deadline_seconds != JOB_END_SECONDS:
        after = f" of {job.spec.deadline_seconds} s" if job.spec.deadline_seconds else ""
        return Explanation(Reason.TIMEOUT_RUN, f"the Job reached its deadline{after}, and Kubernetes ended it")
    failed = list_failed(objects)
    found = explain_failed_pod(failed[-1]) if failed else None
    if found is not None and count_failures(objects, job) > 1:
        return Explanation(found.reason, f"{found.message} (attempt {count_failures(objects, job)})")
    if found is None and target is not None and target.message and not is_deadline:
        return Explanation(Reason.RUN_FAILED, f"{target.message}; its pod is gone, and how it ended is not known")
    return found


def _explain_service(objects: RunObjects, deployment: DeploymentView, seen: Seen) -> Explanation | None:
    wanted = deployment.spec.replicas
    unfinished = list_unfinished(objects)
    ready = sum(1 for pod in unfinished if is_ready(pod))
    if seen is Seen.FAILED:
        return next((fault for fault in map(find_permanent_fault, unfinished) if fault is not None), None)
    if seen is Seen.RUNNING and ready >= wanted:
        return _explain_loss(objects)
    if seen not in (Seen.RUNNING, Seen.PENDING):
        return None
    if wanted == 0:
        return Explanation(Reason.ENGINE_RELEASED, "has 0 replicas, as it was asked for")
    why = _explain_missing_replica(objects, deployment)
    is_plain = seen is Seen.RUNNING and why.reason is Reason.ENGINE_RELEASED
    count = f"{ready} of {wanted} replicas are ready" if wanted > 1 else ""
    message = f"{count}: {why.message}" if count else why.message
    return Explanation(Reason.SERVICE_UNREADY if is_plain else why.reason, message)


def _explain_missing_replica(objects: RunObjects, deployment: DeploymentView) -> Explanation:
    """Why there are fewer ready pods than were asked for: the newest that is not ready, or the refusal of another."""
    unready = [pod for pod in list_unfinished(objects) if not is_ready(pod) and not pod.metadata.deleted_at]
    if unready:
        return explain_waiting_pod(objects, unready[-1])
    refused = find_condition(deployment.status.conditions, "ReplicaFailure")
    if refused is not None and refused.status == "True":
        return explain_refusal(refused.message)
    loss = _explain_loss(objects)
    return loss or Explanation(Reason.ENGINE_RELEASED, "waits for its pod to be created")


def explain_refusal(message: str) -> Explanation:
    """Why the cluster does not create a pod."""
    refusal = read_refusal(message)
    goes_on = "; the run goes on when there is room" if refusal.kind is RefusalKind.QUOTA else ""
    return Explanation(_REFUSALS[refusal.kind], f"{refusal.text}{goes_on}")


def _find_end(pod: PodView) -> str:
    ended = (status.state.terminated for status in iter_statuses(pod))
    return max((each.finished_at or "" for each in ended if each is not None), default="")
