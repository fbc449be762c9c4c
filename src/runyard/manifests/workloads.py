"""The object that runs the pods: a Job, or a Deployment for the actions `serve` and `deploy`."""

from typing import Any

from runyard.domain.effective_spec import EffectiveSpec
from runyard.manifests.identity import RunIdentity
from runyard.manifests.metadata import (
    API_VERSIONS,
    GENERATION_ANNOTATION,
    PENDING_TIMEOUT_ANNOTATION,
    REPLICAS_ANNOTATION,
    TIMEOUT_ANNOTATION,
    TTL_ANNOTATION,
    WISH_ANNOTATION,
    Marks,
)
from runyard.manifests.names import run_name
from runyard.manifests.pod import render_template
from runyard.manifests.volumes import has_claim

DEFAULT_GRACE_SECONDS = 30
"""Kubernetes' own, where a run sets none."""
DEADLINE_MARGIN_SECONDS = 3600
"""How much later than our own deadline the Job's deadline is.

At the timeout Runyard stops the run: the pod ends in place, and its log is read. The Job's deadline deletes the pods
and what was not read of their logs. So it only bounds a run while no server is up: an hour is longer than a restart, an
upgrade or the move to another node takes, and short beside the runs that have a timeout.
"""


def render_workload(
    spec: EffectiveSpec, identity: RunIdentity, marks: Marks, *, is_anchor: bool = False
) -> dict[str, Any]:
    """The Job or Deployment; as an anchor, suspended until its dependents exist."""
    if spec.action == "job":
        kind, content = "Job", _render_job_spec(spec, identity, marks, is_anchor=is_anchor)
    else:
        kind, content = "Deployment", _render_deployment_spec(spec, identity, marks, is_anchor=is_anchor)
    timeout = spec.pending_timeout_seconds
    notes = {} if timeout is None else {PENDING_TIMEOUT_ANNOTATION: str(timeout)}
    if is_anchor:
        notes |= _render_anchor_notes(spec, identity)
    metadata = marks.render_metadata(run_name(identity), annotations=notes)
    return {"apiVersion": API_VERSIONS[kind], "kind": kind, "metadata": metadata, "spec": content}


def _render_anchor_notes(spec: EffectiveSpec, identity: RunIdentity) -> dict[str, str]:
    """What an anchor was told, and the values that later patches set: admission sees them before they are sent."""
    notes = {GENERATION_ANNOTATION: str(identity.generation), WISH_ANNOTATION: "hold"}
    if spec.action != "job":
        return notes | {REPLICAS_ANNOTATION: str(get_replicas(spec))}
    if spec.timeout_seconds is not None:
        notes[TIMEOUT_ANNOTATION] = str(spec.timeout_seconds)
    if spec.ttl_seconds is not None:
        notes[TTL_ANNOTATION] = str(spec.ttl_seconds)
    return notes


def get_replicas(spec: EffectiveSpec) -> int:
    """The replicas of a service; 0 only if somebody asked for none."""
    return 1 if spec.replicas is None else spec.replicas


def get_deadline_seconds(spec: EffectiveSpec, *, is_anchor: bool) -> int | None:
    """The Job's own deadline. That of an anchor is only a backstop; without a server there is no other."""
    if spec.timeout_seconds is None or not is_anchor:
        return spec.timeout_seconds
    grace = DEFAULT_GRACE_SECONDS if spec.grace_period_seconds is None else spec.grace_period_seconds
    return spec.timeout_seconds + grace + DEADLINE_MARGIN_SECONDS


def _render_job_spec(spec: EffectiveSpec, identity: RunIdentity, marks: Marks, *, is_anchor: bool) -> dict[str, Any]:
    job: dict[str, Any] = {"suspend": True} if is_anchor else {}
    job |= {
        "completions": 1,
        "parallelism": 1,
        "backoffLimit": spec.backoff_limit or 0,
        # A retry waits until the previous pod has ended: never two processes of one run on one volume.
        "podReplacementPolicy": "Failed",
    }
    if spec.disruptions != "count":
        job["podFailurePolicy"] = {"rules": [_render_disruption_rule()]}
    deadline = get_deadline_seconds(spec, is_anchor=is_anchor)
    if deadline is not None:
        job["activeDeadlineSeconds"] = deadline
    # An anchor gets its TTL after its log is stored. Until then only Runyard may delete it.
    if spec.ttl_seconds is not None and not is_anchor:
        job["ttlSecondsAfterFinished"] = spec.ttl_seconds
    return {**job, "template": render_template(spec, identity, marks)}


def _render_disruption_rule() -> dict[str, Any]:
    """A pod that is evicted, preempted or drained does not use up a retry; the Job starts another."""
    return {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def _render_deployment_spec(
    spec: EffectiveSpec, identity: RunIdentity, marks: Marks, *, is_anchor: bool
) -> dict[str, Any]:
    deployment: dict[str, Any] = {
        "replicas": 0 if is_anchor else get_replicas(spec),
        "selector": {"matchLabels": marks.render_selector()},
        # A new pod beside the old one would wait forever for a claim that only one node can mount.
        "strategy": {"type": "Recreate" if has_claim(spec) else "RollingUpdate"},
        "revisionHistoryLimit": 0,
    }
    # Of no use for an anchor: Kubernetes counts a Deployment with 0 replicas as complete.
    if spec.pending_timeout_seconds:
        deployment["progressDeadlineSeconds"] = spec.pending_timeout_seconds
    return {**deployment, "template": render_template(spec, identity, marks)}
