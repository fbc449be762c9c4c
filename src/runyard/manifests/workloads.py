"""The object that runs the pods: a Job, or a Deployment for the actions `serve` and `deploy`."""

from typing import Any

from runyard.domain.effective_spec import EffectiveSpec
from runyard.manifests.identity import RunIdentity
from runyard.manifests.metadata import API_VERSIONS, PENDING_TIMEOUT_ANNOTATION, Marks
from runyard.manifests.names import run_name
from runyard.manifests.pod import render_template
from runyard.manifests.volumes import has_claim


def render_workload(
    spec: EffectiveSpec, identity: RunIdentity, marks: Marks, *, is_anchor: bool = False
) -> dict[str, Any]:
    """The Job or Deployment; as an anchor, suspended until its dependents exist."""
    if spec.action == "job":
        return _render_object(
            "Job", spec, identity, marks, _render_job_spec(spec, identity, marks, is_anchor=is_anchor)
        )
    deployment = _render_deployment_spec(spec, identity, marks, is_anchor=is_anchor)
    return _render_object("Deployment", spec, identity, marks, deployment)


def _render_object(
    kind: str, spec: EffectiveSpec, identity: RunIdentity, marks: Marks, content: dict[str, Any]
) -> dict[str, Any]:
    timeout = spec.pending_timeout_seconds
    notes = {} if timeout is None else {PENDING_TIMEOUT_ANNOTATION: str(timeout)}
    metadata = marks.render_metadata(run_name(identity), annotations=notes)
    return {"apiVersion": API_VERSIONS[kind], "kind": kind, "metadata": metadata, "spec": content}


def _render_job_spec(spec: EffectiveSpec, identity: RunIdentity, marks: Marks, *, is_anchor: bool) -> dict[str, Any]:
    job: dict[str, Any] = {"suspend": True} if is_anchor else {}
    job |= {
        "completions": 1,
        "parallelism": 1,
        "backoffLimit": spec.backoff_limit or 0,
        # A retry waits until the previous pod has ended: never two processes of one run on one volume.
        "podReplacementPolicy": "Failed",
    }
    if spec.timeout_seconds is not None:
        job["activeDeadlineSeconds"] = spec.timeout_seconds
    # An anchor gets its TTL after its log is stored. Until then only Runyard may delete it.
    if spec.ttl_seconds is not None and not is_anchor:
        job["ttlSecondsAfterFinished"] = spec.ttl_seconds
    return {**job, "template": render_template(spec, identity, marks)}


def _render_deployment_spec(
    spec: EffectiveSpec, identity: RunIdentity, marks: Marks, *, is_anchor: bool
) -> dict[str, Any]:
    replicas = 1 if spec.replicas is None else spec.replicas
    deployment: dict[str, Any] = {
        "replicas": 0 if is_anchor else replicas,
        "selector": {"matchLabels": marks.render_selector()},
        # A new pod beside the old one would wait forever for a claim that only one node can mount.
        "strategy": {"type": "Recreate" if has_claim(spec) else "RollingUpdate"},
        "revisionHistoryLimit": 0,
    }
    # Of no use for an anchor: Kubernetes counts a Deployment with 0 replicas as complete.
    if spec.pending_timeout_seconds:
        deployment["progressDeadlineSeconds"] = spec.pending_timeout_seconds
    return {**deployment, "template": render_template(spec, identity, marks)}
