"""A run's objects: all at once for `kubectl apply`, or the anchor first and then its dependents."""

from collections.abc import Mapping
from typing import Any

from runyard.domain.effective_spec import EffectiveSpec
from runyard.manifests.checks import check_run, check_workload
from runyard.manifests.environment import render_secret
from runyard.manifests.identity import Owner, RunIdentity
from runyard.manifests.metadata import Marks, make_marks
from runyard.manifests.services import render_services
from runyard.manifests.volumes import render_claims, render_config_maps
from runyard.manifests.workloads import render_workload


def render_run(spec: EffectiveSpec, identity: RunIdentity, *, secret_values: Mapping[str, str]) -> list[dict[str, Any]]:
    """All objects, in the order in which they can be applied; raises `Refused` if the run cannot be rendered."""
    check_run(spec, secret_values=secret_values)
    marks = make_marks(spec, identity)
    return [
        *_render_needs(spec, identity, marks, secret_values=secret_values),
        render_workload(spec, identity, marks),
        *_render_services(spec, identity, marks),
    ]


def render_anchor(spec: EffectiveSpec, identity: RunIdentity) -> dict[str, Any]:
    """The object that a run begins with, not started: a suspended Job without TTL, or a Deployment with 0 replicas.

    A patch of `spec.suspend` or `spec.replicas` with its UID releases it. Raises `Refused` if it cannot be rendered.
    """
    check_workload(spec)
    return render_workload(spec, identity, make_marks(spec, identity), is_anchor=True)


def render_dependents(
    spec: EffectiveSpec, identity: RunIdentity, *, owner: Owner, secret_values: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The objects that the anchor needs and owns; they are garbage-collected with it. Kept claims have no owner.

    Raises `Refused` if the run cannot be rendered.
    """
    check_run(spec, secret_values=secret_values)
    marks = make_marks(spec, identity, owner=owner)
    needs = _render_needs(spec, identity, marks, secret_values=secret_values)
    return [*needs, *_render_services(spec, identity, marks)]


def _render_needs(
    spec: EffectiveSpec, identity: RunIdentity, marks: Marks, *, secret_values: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The objects that must exist before the pods."""
    return [
        *render_secret(spec, identity, marks, values=secret_values),
        *render_config_maps(spec, identity, marks),
        *render_claims(spec, identity, marks),
    ]


def _render_services(spec: EffectiveSpec, identity: RunIdentity, marks: Marks) -> list[dict[str, Any]]:
    return render_services(spec, identity, marks) if spec.action == "serve" else []
