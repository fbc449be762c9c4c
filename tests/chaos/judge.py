"""The rules that hold after every storm. Each takes the evidence of one run and returns what is wrong, in words."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

from tests.chaos.audit_log import AuditEntry
from tests.chaos.evidence import FINAL, Evidence, StoredGap
from tests.chaos.kept_logs import Instance
from tests.chaos.log_comparison import compare_log, find_unnamed
from tests.chaos.witness import MAIN, ContainerEnd, Sighting

LOST = "run.lost"
ANSWER = "answer"
"""The rule that every request of a user is answered in the end; the storm itself sees whether it is."""
LOST_STREAM = "lost/lost"
"""The stream of a run whose objects are gone, and of whose output nothing was read."""
POD_GONE = ("pod ", "node lost")
"""How the causes of gaps begin whose pod is gone."""
ANCHORS = ("jobs", "deployments")
WORK = (*ANCHORS, "pods")


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule."""

    rule: str
    run_id: str
    message: str


def judge_run(evidence: Evidence) -> list[Violation]:
    """Every rule that this run breaks."""
    run_id = evidence.workload.run_id
    return [Violation(name, run_id, message) for name, rule in RULES.items() for message in rule(evidence)]


def find_wrong_states(evidence: Evidence) -> Iterator[str]:
    """A run is in the state that its pods say, or stopped, deleted or lost, with a cause."""
    state, is_deletion_wanted = evidence.state, evidence.delete_asked_at is not None
    if not evidence.is_submitted and state == "GONE":
        return
    if state == "GONE":
        if not is_deletion_wanted:
            yield "it is gone, and nobody deleted it"
        return
    if evidence.is_delete_acknowledged:
        yield f"it was deleted, and is {state}"
        return
    if state not in FINAL:
        yield f"it has not ended: {_describe_status(evidence)}"
        return
    if state != "COMPLETED" and not evidence.status.get("reason"):
        yield f"{state} without a reason"
    yield from {"COMPLETED": _check_completed, "ERROR": _check_error, "STOPPED": _check_stopped}[state](evidence)


def _check_completed(evidence: Evidence) -> Iterator[str]:
    if not _has_ended_well(evidence):
        yield f"COMPLETED, and no pod ended with 0: {_describe_pods(evidence)}"


def _check_stopped(evidence: Evidence) -> Iterator[str]:
    if not evidence.is_ending_asked:
        yield f"STOPPED, and nobody stopped it: {_describe_status(evidence)}"


def _check_error(evidence: Evidence) -> Iterator[str]:
    reason = evidence.status.get("reason")
    removed = [one for one in evidence.tamperings if one.resource in ANCHORS]
    if reason == LOST:
        if not removed:
            yield f"lost, and nobody removed its object: {_describe_status(evidence)}"
        return
    workload = evidence.workload
    timeouts = {"timeout.run": workload.timeout_seconds, "timeout.pending": workload.pending_timeout_seconds}
    if reason in timeouts:
        if timeouts[reason] is None:
            yield f"timed out, and it has no such timeout: {_describe_status(evidence)}"
        return
    if _has_ended_well(evidence) and not _has_job_failed(evidence):
        yield f"ERROR, and a pod ended with 0: {_describe_status(evidence)}; {_describe_pods(evidence)}"
    elif not _has_failed(evidence) and not evidence.is_ending_asked:
        yield f"ERROR, and nothing failed: {_describe_status(evidence)}; {_describe_pods(evidence)}"
    yield from _check_exit_code(evidence)


def _check_exit_code(evidence: Evidence) -> Iterator[str]:
    """The last pod that ended by itself, and is still there to be read, is among the ends that the run tells."""
    pods = [pod for pod in evidence.pods if pod.ends and not pod.is_disrupted and not pod.is_deleted]
    if not pods or evidence.stop_asked_at is not None:
        return
    last = pods[-1]
    instance = max(last.ends)
    end = last.ends[instance]
    told = [
        (one.get("exit_code"), one.get("is_out_of_memory"))
        for one in evidence.status.get("ends", [])
        if one.get("pod") == last.name and one.get("container") == MAIN and one.get("instance", 0) == instance
    ]
    if (end.exit_code, end.reason == "OOMKilled") not in told:
        yield f"its pod {last.name} ended with {_describe_end(end)}, the run tells {told}"


def find_doubled_anchors(evidence: Evidence) -> Iterator[str]:
    """At most one Job or Deployment was ever created for a run.

    One that others deleted while it was held back does not count: nothing ran, and its UID was not stored yet, for
    else the run would be lost.
    """
    creations = [one for one in evidence.entries if one.verb == "create" and one.resource in ANCHORS and one.is_done]
    uids = {one.uid for one in creations if one.uid} | {anchor.uid for anchor in evidence.anchors}
    uids -= {first.uid or "" for first, second in pairwise(creations) if _is_deleted_unused(evidence, first, second)}
    if len(uids) > 1:
        yield f"{len(uids)} anchors were created: {', '.join(sorted(uids))}"
    if not uids and evidence.state == "COMPLETED":
        yield "COMPLETED without an anchor"


def _is_deleted_unused(evidence: Evidence, first: AuditEntry, second: AuditEntry) -> bool:
    """Whether others deleted the first anchor before the second was created, and it was never released."""
    done = [one for one in evidence.entries if one.resource in ANCHORS and one.is_done]
    between = [one for one in done if first.at < one.at < second.at]
    is_deleted = any(one.verb == "delete" and not is_engine(one) for one in between)
    is_touched = any(is_engine(one) for one in between)
    owners = {owner["uid"] for pod in evidence.pods for owner in pod.object["metadata"].get("ownerReferences", [])}
    return is_deleted and not is_touched and first.uid not in owners


def find_ended_work(evidence: Evidence) -> Iterator[str]:
    """The engine deletes or ends no work that is alive, unless a user or a timeout had asked for it by then."""
    tampered = [one.at for one in evidence.tamperings if one.resource in ANCHORS]
    for entry in evidence.entries:
        if not (entry.is_done and is_engine(entry) and _ends_work(entry)):
            continue
        at = read_time(entry.at)
        if evidence.was_ending_due(at):
            continue
        if _is_alive(evidence, at) and not any(moment <= at for moment in tampered):
            yield f"{entry.verb} of {entry.resource} {entry.name} at {entry.at}, while it was alive"


def is_engine(entry: AuditEntry) -> bool:
    """Whether the server's own account did it."""
    return entry.user.endswith(":runyard-server")


def _ends_work(entry: AuditEntry) -> bool:
    if entry.resource not in WORK:
        return False
    if entry.verb in ("delete", "deletecollection"):
        return True
    operations = entry.request if isinstance(entry.request, list) else []
    told = {operation.get("path"): operation.get("value") for operation in operations if operation.get("op") != "test"}
    return (
        told.get("/spec/suspend") is True
        or told.get("/spec/backoffLimit") == 0
        or told.get("/spec/replicas") == 0
        or "/spec/activeDeadlineSeconds" in told
    )


def _is_alive(evidence: Evidence, at: float) -> bool:
    """Whether the run's work had not ended at that time, as far as the cluster says."""
    finished = [
        read_time(condition["lastTransitionTime"])
        for anchor in evidence.anchors
        for name, condition in anchor.conditions.items()
        if name in ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")
    ]
    # A Job's status lags behind its pods.
    finished += [
        read_time(end.finished_at)
        for pod in evidence.pods
        for end in pod.ends.values()
        if end.finished_at and end.exit_code == 0
    ]
    # A container that its node has lost, or that never started, has ended with its pod.
    finished += [
        pod.ended_at
        for pod in evidence.pods
        if pod.ended_at is not None
        and (pod.phase == "Succeeded" or (evidence.workload.backoff_limit == 0 and not pod.is_replaced))
    ]
    finished += _list_failures(evidence)[evidence.workload.backoff_limit :]
    # Times of the cluster have whole seconds, rounded down.
    return not any(moment <= at for moment in finished)


def _list_failures(evidence: Evidence) -> list[float]:
    """When pods failed by themselves. One that is disrupted afterwards has used up a retry, whoever counts late."""
    moments = []
    for pod in evidence.pods:
        disrupted = pod.conditions.get("DisruptionTarget", {}).get("lastTransitionTime")
        failed = [end.finished_at for end in pod.ends.values() if end.exit_code and end.finished_at]
        if failed and (disrupted is None or disrupted > max(failed)):
            moments.append(read_time(max(failed)))
    return sorted(moments)


def find_orphans(evidence: Evidence) -> Iterator[str]:
    """Nothing is left of a deleted run; of one that has ended only what expires, and what its spec keeps."""
    has_ttl = evidence.workload.ttl_seconds is not None
    for remain in evidence.remains:
        kind, metadata = remain["kind"], remain["metadata"]
        what = f"{kind} {metadata['name']}"
        if evidence.state == "GONE" and not metadata.get("deletionTimestamp"):
            yield f"{what} is left of a deleted run"
        elif evidence.state not in FINAL or metadata.get("deletionTimestamp"):
            continue
        elif kind == "Job" and has_ttl and remain["spec"].get("ttlSecondsAfterFinished") is None:
            yield f"{what} of a run that is {evidence.state} never expires"
        elif kind == "Secret":
            yield f"{what} has the secrets of a run that is {evidence.state}"
        elif kind == "Pod" and remain.get("status", {}).get("phase") == "Running":
            yield f"{what} runs, and its run is {evidence.state}"


def find_wrong_logs(evidence: Evidence) -> Iterator[str]:
    """Every line that a container printed is stored once, in order; what is missing is named by a gap."""
    if evidence.state == "GONE" or evidence.delete_asked_at is not None:
        return
    known = {name_stream(instance) for instance in evidence.printed}
    # A pod that came and went while no server watched has no name there: a stream with only a gap stands for each.
    unnamed = sum(name not in known and len(stored.segments) > 1 for name, stored in evidence.logs.items())
    # A run that is lost before anything of it was read has one gap for all of its pods.
    is_all_lost = LOST_STREAM in evidence.logs
    for instance, printed in evidence.printed.items():
        name = name_stream(instance)
        stored = evidence.logs.get(name)
        if stored is None:
            if not printed or is_all_lost or _is_named_by_an_earlier(instance, evidence):
                continue
            unnamed -= 1
            if unnamed < 0:
                yield f"{name}: none of {len(printed)} lines is stored, and no gap says so"
            continue
        for message in compare_log(printed, stored.pieces, removed_at=_find_removal(instance, evidence)):
            yield f"{name}: {message}"
    for name, stored in evidence.logs.items():
        if name not in known and any(stored.segments):
            yield f"{name}: a log of a container that never printed"
    if evidence.state in FINAL and evidence.anchors and evidence.status.get("logs") != {"state": "complete"}:
        yield f"the log is not complete: {evidence.status.get('logs')}"


def _is_named_by_an_earlier(instance: Instance, evidence: Evidence) -> bool:
    """Whether an earlier instance of the container ends with a gap because its pod is gone.

    That gap stands for instances that came later and of which nobody heard: who restarts reads of a pod that is gone
    only its name, in an event.
    """
    earlier = (evidence.logs.get(name_stream(replace(instance, number=number))) for number in range(instance.number))
    lasts = (stored.pieces[-1] for stored in earlier if stored is not None and stored.pieces)
    gaps = [last for last in lasts if isinstance(last, StoredGap) and last.cause.startswith(POD_GONE)]
    printed, removed_at = evidence.printed[instance], _find_removal(instance, evidence)
    return find_unnamed(printed, gaps, removed_at=removed_at) is None


def _find_removal(instance: Instance, evidence: Evidence) -> float | None:
    """When the deletion of the pod was asked for, as far as the apiserver tells; None: never."""
    pod = next((pod for pod in evidence.pods if pod.uid == instance.pod_uid), None)
    if pod is None:
        return None
    metadata = pod.object["metadata"]
    moments = [] if pod.deleted_at is None else [pod.deleted_at]
    if due := metadata.get("deletionTimestamp"):
        moments.append(read_time(due) - float(metadata.get("deletionGracePeriodSeconds") or 0))
    asked = (one for one in evidence.entries if (one.verb, one.resource, one.name) == ("delete", "pods", pod.name))
    moments += [read_time(one.at) for one in asked if one.is_done]
    return min(moments, default=None)


def find_wrong_transitions(evidence: Evidence) -> Iterator[str]:
    """A final state is the last one."""
    steps = [step["status"] for step in evidence.status.get("transitions", [])]
    early = [step for step in steps[1:] if step in FINAL]
    if early:
        yield f"went on after its end: {', '.join(reversed(steps))}"


def name_stream(instance: Instance) -> str:
    """As the API names it."""
    name = f"{instance.pod}/{instance.container}"
    return f"{name}/{instance.number}" if instance.number else name


RULES: Mapping[str, Callable[[Evidence], Iterator[str]]] = {
    "state": find_wrong_states,
    "doubled": find_doubled_anchors,
    "live work ended": find_ended_work,
    "orphan": find_orphans,
    "log": find_wrong_logs,
    "transition": find_wrong_transitions,
}


def read_time(text: str) -> float:
    """Seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()


def _has_ended_well(evidence: Evidence) -> bool:
    return any(end.exit_code == 0 for pod in evidence.pods for end in pod.ends.values()) or any(
        pod.phase == "Succeeded" for pod in evidence.pods
    )


def _has_job_failed(evidence: Evidence) -> bool:
    return any("Failed" in anchor.conditions or "FailureTarget" in anchor.conditions for anchor in evidence.anchors)


def _has_failed(evidence: Evidence) -> bool:
    return _has_job_failed(evidence) or any(_pod_failed(pod) for pod in evidence.pods)


def _pod_failed(pod: Sighting) -> bool:
    return pod.phase == "Failed" or pod.is_disrupted or any(end.exit_code != 0 for end in pod.ends.values())


def _describe_end(end: ContainerEnd) -> str:
    return f"{end.exit_code} {end.reason}".strip()


def _describe_status(evidence: Evidence) -> str:
    status = evidence.status
    return f"{status.get('state')} {status.get('reason')}: {status.get('message')}"


def _describe_pods(evidence: Evidence) -> str:
    return "; ".join(
        f"{pod.name} {pod.phase}{' deleted' if pod.is_deleted else ''} "
        f"{[_describe_end(end) for end in pod.ends.values()]}"
        for pod in evidence.pods
    )
