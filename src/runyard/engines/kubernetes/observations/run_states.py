"""The state of a run, from its anchor and its pods.

Pods are believed before their controller, whose status may be a second older. A state that says that nothing runs is
given only if nothing can start either.
"""

from runyard.domain.outcomes import Seen
from runyard.engines.kubernetes.observations.container_faults import find_permanent_fault
from runyard.engines.kubernetes.observations.pod_steps import (
    DEADLINE_EXCEEDED,
    has_condition,
    is_disrupted,
    is_finished,
    is_ready,
)
from runyard.engines.kubernetes.run_objects import RunObjects
from runyard.engines.kubernetes.views import DeploymentView, JobView, PodView


def judge_run(objects: RunObjects) -> Seen:
    """The state of a run whose anchor exists."""
    if isinstance(objects.anchor, JobView):
        return _judge_job(objects, objects.anchor)
    return _judge_deployment(objects, objects.anchor)


def list_unfinished(objects: RunObjects) -> list[PodView]:
    """The pods that have not ended, in the order of their creation."""
    return [pod for pod in objects.pods if not is_finished(pod)]


def list_failed(objects: RunObjects) -> list[PodView]:
    """The pods that have failed, those that were deleted too, in the order of their creation."""
    known = [*(gone.pod for gone in objects.gone_pods), *objects.pods]
    return [pod for pod in known if pod.status.phase == "Failed"]


def count_failures(objects: RunObjects, job: JobView) -> int:
    """How many failed pods count towards the Job's `backoffLimit`."""
    is_ignored = job.spec.failure_policy is not None
    known = sum(1 for pod in list_failed(objects) if not (is_ignored and is_disrupted(pod)))
    return max(known, job.status.failed)


def has_failed(job: JobView) -> bool:
    """Whether the Job controller has decided that the Job fails; its pods may still be ending."""
    conditions = job.status.conditions
    return has_condition(conditions, "Failed") or has_condition(conditions, "FailureTarget")


def _judge_job(objects: RunObjects, job: JobView) -> Seen:
    unfinished = list_unfinished(objects)
    if unfinished:
        return _judge_unfinished(job, unfinished)
    if _has_succeeded(objects, job):
        return Seen.SUCCEEDED
    if job.metadata.annotations.wish == "stop":
        return _judge_stopped(objects, job)
    if has_failed(job) or count_failures(objects, job) > job.spec.backoff_limit:
        return Seen.FAILED
    is_held = job.metadata.annotations.wish == "hold" and not objects.gone_pods
    return Seen.HELD if is_held else Seen.PENDING


def _judge_unfinished(job: JobView, unfinished: list[PodView]) -> Seen:
    if any(pod.status.phase != "Pending" for pod in unfinished):
        return Seen.RUNNING
    is_doomed = job.metadata.annotations.wish != "stop" and find_permanent_fault(unfinished[-1]) is not None
    return Seen.FAILED if is_doomed else Seen.PENDING


def _has_succeeded(objects: RunObjects, job: JobView) -> bool:
    conditions = job.status.conditions
    if job.status.succeeded or has_condition(conditions, "Complete") or has_condition(conditions, "SuccessCriteriaMet"):
        return True
    pods = (*(gone.pod for gone in objects.gone_pods), *objects.pods)
    return not has_failed(job) and any(pod.status.phase == "Succeeded" for pod in pods)


def _judge_stopped(objects: RunObjects, job: JobView) -> Seen:
    """Nothing is left of a Job that was told to stop: it obeyed, or it had failed before; else a pod may still come."""
    failed = list_failed(objects)
    if failed and not was_ended(failed[-1]):
        return Seen.FAILED
    if failed or has_failed(job):
        return Seen.STOPPED
    is_suspended = job.spec.suspend and (not job.status.started_at or has_condition(job.status.conditions, "Suspended"))
    return Seen.STOPPED if is_suspended and not job.status.active else Seen.PENDING


def was_ended(pod: PodView) -> bool:
    """Whether a failed pod was ended from outside: by its deadline, a deletion or a disruption."""
    return pod.status.reason == DEADLINE_EXCEEDED or bool(pod.metadata.deleted_at) or is_disrupted(pod)


def _judge_deployment(objects: RunObjects, deployment: DeploymentView) -> Seen:
    unfinished = list_unfinished(objects)
    wish = deployment.metadata.annotations.wish
    if wish == "run" and deployment.spec.replicas > 0:
        if any(is_ready(pod) for pod in unfinished):
            return Seen.RUNNING
        is_doomed = bool(unfinished) and all(find_permanent_fault(pod) is not None for pod in unfinished)
        return Seen.FAILED if is_doomed else Seen.PENDING
    if unfinished:
        return Seen.RUNNING
    if wish == "hold":
        return Seen.HELD
    if wish == "run" and deployment.metadata.annotations.replicas in ("0", ""):
        return Seen.PENDING
    return Seen.STOPPED if is_scaled_down(deployment) else Seen.PENDING


def is_scaled_down(deployment: DeploymentView) -> bool:
    """Whether the controller has observed that there are to be no replicas, or never heard of any."""
    generation = deployment.metadata.generation
    is_observed = generation <= 1 or deployment.status.observed_generation >= generation
    return deployment.spec.replicas == 0 and deployment.status.replicas == 0 and is_observed
