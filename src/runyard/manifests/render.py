"""A run's objects: all at once for `kubectl apply`, or as an engine sends them, the anchor first.

An engine sends the anchor after admission saw it with `render_preview`, then `render_dependents` with the anchor's UID,
then the patch that releases it (`patches.py`). Everything that follows the anchor is owned by it: a late call for an
anchor that is gone creates only objects that the garbage collector removes. Claims that outlive the run are not among
them; `Engine.ensure_volume` creates those, from the ledger, before the release (`project_objects.py`).
"""

from collections.abc import Mapping
from typing import Any

from runyard.domain.effective_spec import EffectiveSpec
from runyard.manifests.checks import check_run, check_workload
from runyard.manifests.environment import render_secret
from runyard.manifests.identity import Owner, RunIdentity
from runyard.manifests.metadata import Marks, make_marks
from runyard.manifests.services import find_alias_name, render_services
from runyard.manifests.volumes import render_claims, render_config_maps
from runyard.manifests.workloads import render_workload


def render_run(
    spec: EffectiveSpec, identity: RunIdentity, *, secret_values: Mapping[str, str], token: str | None = None
) -> list[dict[str, Any]]:
    """All objects, in the order in which they can be applied; raises `Refused` if the run cannot be rendered."""
    _check_run(spec, identity, secret_values=secret_values, token=token)
    marks = make_marks(spec, identity)
    return [
        *_render_owned(spec, identity, marks, secret_values=secret_values, token=token),
        *render_claims(spec, identity, marks, is_kept=True),
        render_workload(spec, identity, marks),
        *_render_services(spec, identity, marks),
    ]


def render_anchor(spec: EffectiveSpec, identity: RunIdentity) -> dict[str, Any]:
    """The object that a run begins with, not started: a suspended Job without TTL, or a Deployment with 0 replicas.

    `patches.Release` starts it. Raises `Refused` if it cannot be rendered.
    """
    check_workload(spec, has_launcher=identity.platform.launcher is not None)
    return render_workload(spec, identity, make_marks(spec, identity), is_anchor=True)


def render_dependents(
    spec: EffectiveSpec,
    identity: RunIdentity,
    *,
    owner: Owner,
    secret_values: Mapping[str, str],
    token: str | None = None,
) -> list[dict[str, Any]]:
    """The objects that the anchor needs and owns; they are garbage-collected with it.

    Raises `Refused` if the run cannot be rendered.
    """
    _check_run(spec, identity, secret_values=secret_values, token=token)
    marks = make_marks(spec, identity, owner=owner)
    owned = _render_owned(spec, identity, marks, secret_values=secret_values, token=token)
    return [*owned, *_render_services(spec, identity, marks)]


def render_alias(spec: EffectiveSpec, identity: RunIdentity, *, owner: Owner) -> dict[str, Any] | None:
    """The Service with the stable name, one of `render_dependents`; None if the run has none."""
    name = find_alias_name(spec, identity)
    services = _render_services(spec, identity, make_marks(spec, identity, owner=owner))
    return next((service for service in services if service["metadata"]["name"] == name), None)


def render_kept_claims(spec: EffectiveSpec, identity: RunIdentity) -> list[dict[str, Any]]:
    """The claims that outlive the run, as admission checks them beside the other objects; `unsent` there."""
    return render_claims(spec, identity, make_marks(spec, identity), is_kept=True)


def render_preview(spec: EffectiveSpec, identity: RunIdentity) -> list[dict[str, Any]]:
    """What will follow the anchor, without owner and values of secrets: `unsent` where admission checks the anchor."""
    marks = make_marks(spec, identity)
    values = {use.name: "" for use in spec.secrets}
    token = "" if identity.platform.has_token else None
    return [
        *_render_owned(spec, identity, marks, secret_values=values, token=token),
        *render_claims(spec, identity, marks, is_kept=True),
        *_render_services(spec, identity, marks),
    ]


def _check_run(
    spec: EffectiveSpec, identity: RunIdentity, *, secret_values: Mapping[str, str], token: str | None
) -> None:
    if identity.platform.has_token != (token is not None):
        raise ValueError("a run has a token exactly if its platform inputs say so")
    has_launcher = identity.platform.launcher is not None
    check_run(spec, secret_values=secret_values, token=token, has_launcher=has_launcher)


def _render_owned(
    spec: EffectiveSpec, identity: RunIdentity, marks: Marks, *, secret_values: Mapping[str, str], token: str | None
) -> list[dict[str, Any]]:
    """The objects of the run alone that must exist before the pods."""
    return [
        *render_secret(spec, identity, marks, values=secret_values, token=token),
        *render_config_maps(spec, identity, marks),
        *render_claims(spec, identity, marks, is_kept=False),
    ]


def _render_services(spec: EffectiveSpec, identity: RunIdentity, marks: Marks) -> list[dict[str, Any]]:
    return render_services(spec, identity, marks) if spec.action == "serve" else []
