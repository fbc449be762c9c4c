"""The second wall: ValidatingAdmissionPolicies that hold the admin's rules against pods that bypass Runyard.

One policy per kind of object, named by a hash of its content: projects with the same rules share it. A binding per
project and kind, by the namespace's immutable name. A changed rule makes a new policy, and one update of the binding
changes to it, so that there is never a moment without a wall.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runyard.engines.kubernetes.project_rules import (
    environment_checks,
    image_checks,
    placement_checks,
    resource_checks,
    volume_checks,
)
from runyard.engines.kubernetes.project_rules.checks import Check, make_check
from runyard.engines.kubernetes.project_rules.pod_checks import check_pod
from runyard.engines.kubernetes.project_rules.wall_inputs import WallInputs
from runyard.engines.kubernetes.project_rules.workload_checks import check_deployment, check_job, check_service

POLICY_LABEL = "runyard.io/second-wall"
"""On policies and bindings of the wall."""
PROBE_NAME = "runyard-wall-probe"
"""A Service of this name is always refused: a dry run of it tells which wall stands."""
HASH_CHARACTERS = 16
_POLICY, _BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
_API_VERSION = "admissionregistration.k8s.io/v1"

_UNCHANGED = (
    'request.operation == "CREATE" || (has(request.subResource) && request.subResource != "") || '
    "object.spec.containers.map(c, c.image) != oldObject.spec.containers.map(c, c.image) || "
    "(has(object.spec.tolerations) ? object.spec.tolerations : []) != "
    "(has(oldObject.spec.tolerations) ? oldObject.spec.tolerations : []) || "
    "(has(object.spec.nodeSelector) ? object.spec.nodeSelector : {}) != "
    "(has(oldObject.spec.nodeSelector) ? oldObject.spec.nodeSelector : {}) || "
    "has(object.spec.affinity) != has(oldObject.spec.affinity) || "
    "(has(object.spec.affinity) && object.spec.affinity != oldObject.spec.affinity)"
)
"""What can change in a pod that exists. Other updates pass: stopping it, and controllers' own marks."""
_SIZE_CHANGED = (
    'request.operation == "CREATE" || '
    "object.spec.resources.requests.storage != oldObject.spec.resources.requests.storage"
)


@dataclass(frozen=True, slots=True)
class _Kind:
    """The objects that one policy checks."""

    name: str
    group: str
    resources: tuple[str, ...]
    operations: tuple[str, ...]
    list_checks: Callable[[WallInputs], Iterator[Check]]
    variables: Mapping[str, str]
    condition: str | None = None
    """Requests for which it is false are not checked."""


def _check_pods(inputs: WallInputs) -> Iterator[Check]:
    yield from check_pod(inputs)
    yield from resource_checks.check_resources(inputs)
    yield from image_checks.check_images(inputs)
    yield from volume_checks.check_pod_volumes(inputs)
    yield from placement_checks.check_placement(inputs)
    yield from environment_checks.check_environment(inputs)


_KINDS = (
    _Kind(
        "pods",
        "",
        ("pods", "pods/ephemeralcontainers", "pods/resize"),
        ("CREATE", "UPDATE"),
        _check_pods,
        {
            **resource_checks.VARIABLES,
            **image_checks.VARIABLES,
            **volume_checks.VARIABLES,
            **placement_checks.VARIABLES,
            **environment_checks.VARIABLES,
        },
        _UNCHANGED,
    ),
    _Kind(
        "claims", "", ("persistentvolumeclaims",), ("CREATE", "UPDATE"), volume_checks.check_claims, {}, _SIZE_CHANGED
    ),
    _Kind("jobs", "batch", ("jobs",), ("CREATE",), check_job, {}),
    _Kind(
        "deployments",
        "apps",
        tuple(f"{kind}{part}" for kind in ("deployments", "replicasets", "statefulsets") for part in ("", "/scale")),
        ("CREATE", "UPDATE"),
        check_deployment,
        {},
    ),
    # The last one: when it stands, so do the others.
    _Kind("services", "", ("services",), ("CREATE", "UPDATE"), check_service, {}),
)


@dataclass(frozen=True, slots=True)
class Wall:
    """The objects of the wall around one namespace, in the order in which they are sent."""

    policies: tuple[dict[str, Any], ...]
    bindings: tuple[dict[str, Any], ...]

    @property
    def probed_policy(self) -> str:
        """The name of the policy that refuses the probe."""
        return str(self.policies[-1]["metadata"]["name"])


def render_wall(inputs: WallInputs, *, namespace: str, labels: Mapping[str, str], owner: str) -> Wall:
    """The wall around a project's namespace. `labels` mark the bindings as ours; `owner` is our installation.

    `owner` marks the policies, which several projects of the installation share.
    """
    *others, last = _KINDS
    rendered = [(kind, _render_policy(kind, list(kind.list_checks(inputs)), owner)) for kind in others]
    made = [(kind, policy) for kind, policy in rendered if policy is not None]
    probe = _make_probe([policy["metadata"]["name"] for _, policy in made])
    services = _render_policy(last, [probe, *last.list_checks(inputs)], owner)
    made += [(last, services)] if services is not None else []
    return Wall(
        policies=tuple(policy for _, policy in made),
        bindings=tuple(_render_binding(kind, policy, namespace, labels) for kind, policy in made),
    )


def list_binding_names(namespace: str) -> list[str]:
    """The names that bindings of a namespace can have."""
    return [_name_binding(namespace, kind) for kind in _KINDS]


def list_checks(inputs: WallInputs) -> dict[str, list[Check]]:
    """Every check by the kind of object."""
    return {kind.name: list(kind.list_checks(inputs)) for kind in _KINDS}


def _make_probe(policies: Sequence[str]) -> Check:
    """Refuses the probe. It names the other policies, so that it stands only when they do."""
    digest = hashlib.sha256(" ".join(policies).encode()).hexdigest()[:HASH_CHARACTERS]
    return make_check("service", "probe", None, f'object.metadata.name != "{PROBE_NAME}"', allowed=f"wall {digest}")


def _render_policy(kind: _Kind, given: Sequence[Check], owner: str) -> dict[str, Any] | None:
    checks = _merge(given)
    if not checks:
        return None
    used = _find_used(kind.variables, checks)
    spec: dict[str, Any] = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "resourceRules": [
                {
                    "apiGroups": [kind.group],
                    "apiVersions": ["v1"],
                    "operations": list(kind.operations),
                    "resources": list(kind.resources),
                    "scope": "Namespaced",
                }
            ],
        },
        "validations": [
            {"expression": check.expression, "message": check.message, "reason": "Forbidden"} for check in checks
        ],
    }
    if used:
        spec["variables"] = [{"name": name, "expression": kind.variables[name]} for name in used]
    if kind.condition is not None:
        spec["matchConditions"] = [{"name": "has-changed", "expression": kind.condition}]
    digest = hashlib.sha256(json.dumps([owner, spec], sort_keys=True).encode()).hexdigest()[:HASH_CHARACTERS]
    labels = {"app.kubernetes.io/managed-by": "runyard", "runyard.io/installation": owner, POLICY_LABEL: kind.name}
    return {
        "apiVersion": _API_VERSION,
        "kind": _POLICY,
        "metadata": {"name": f"runyard-{digest}-{kind.name}", "labels": labels},
        "spec": spec,
    }


def _merge(checks: Sequence[Check]) -> list[Check]:
    """Each expression once; one that always holds is left out."""
    return list({check.expression: check for check in checks if check.expression != "true"}.values())


def _find_used(variables: Mapping[str, str], checks: Sequence[Check]) -> list[str]:
    """The variables that checks read, and those that these are made of, in the order of their definition."""
    text = " ".join(check.expression for check in checks)
    used: list[str] = []
    for name in reversed(list(variables)):
        if f"variables.{name}" in text:
            used.append(name)
            text += variables[name]
    return used[::-1]


def _render_binding(
    kind: _Kind, policy: Mapping[str, Any], namespace: str, labels: Mapping[str, str]
) -> dict[str, Any]:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    return {
        "apiVersion": _API_VERSION,
        "kind": _BINDING,
        "metadata": {"name": _name_binding(namespace, kind), "labels": {**labels, POLICY_LABEL: kind.name}},
        "spec": {
            "policyName": policy["metadata"]["name"],
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": selector},
        },
    }


def _name_binding(namespace: str, kind: _Kind) -> str:
    return f"{namespace}.{kind.name}"
