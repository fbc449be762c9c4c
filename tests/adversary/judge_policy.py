"""Complaints about the policy: bounds, lists, requirements, locks and default denials."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.adversary.cases import World
from tests.adversary.facts import AdminInputs, Facts
from tests.adversary.images import glob, is_allowed, is_denied
from tests.adversary.judge_values import collect, iter_node_keys, iter_pod_terms, list_derived
from tests.adversary.raw import RawScope
from tests.adversary.tolerations import is_within, meets

_ROLES = ("control-plane", "controlplane", "master", "etcd", "controller", "controller-manager", "apiserver")
_RESERVED_TAINTS = frozenset(
    {
        *(f"node-role.kubernetes.io/{role}" for role in (*_ROLES, "api-server", "scheduler", "infra")),
        *("criticaladdonsonly", "k3s-controlplane", "components.gke.io/gke-managed-components"),
    }
)
_PLATFORM_ENVS = (
    "DHCORE_*",
    "DH_CONFIG",
    "DH_NAME",
    "DH_PROJECTS",
    "OAUTH2_TOKEN_ENDPOINT",
    "PROJECT_NAME",
    "RUNYARD_*",
    "RUN_ID",
)
_JOB_FIELDS = frozenset({"backoff_limit", "timeout", "ttl"})
_GRACE_SECONDS = 30
_SERVED_FIELDS = frozenset({"service_type"})
_LONG_FIELDS = frozenset({"replicas"})


def iter_policy_complaints(facts: Facts, admin: AdminInputs, world: World) -> Iterator[str]:
    for scope in admin.scopes:
        for field, rule in scope.rules.items():
            yield from _judge_rule(field, rule, scope, facts, admin, world)
    for field in dict.fromkeys(field for scope in admin.scopes for field in scope.rules):
        if admin.is_locked(field) and _applies(field, facts):
            yield from _judge_lock(field, facts, admin, world)
    yield from _judge_denials(facts, admin, world)
    yield from _judge_unbounded(facts, admin)


_UNBOUNDED: Mapping[str, Callable[[Facts], bool]] = {
    "resources.mem": lambda facts: facts.side("mem", "limits") is not None,
    "resources.mem.limits": lambda facts: facts.side("mem", "limits") is not None,
    "resources.cpu.limits": lambda facts: facts.side("cpu", "limits") is not None,
    "resources.ephemeral-storage.limits": lambda facts: facts.side("ephemeral-storage", "limits") is not None,
    "timeout": lambda facts: facts.find_timing("timeout") is not None,
    "ttl": lambda facts: facts.find_timing("ttl") is not None,
    "pending_timeout": lambda facts: facts.find_annotation("pending-timeout") is not None,
    "volumes.size_limit": lambda facts: all(
        "sizeLimit" in volume["emptyDir"] for volume in facts.iter_user_volumes() if "emptyDir" in volume
    ),
}


def _judge_unbounded(facts: Facts, admin: AdminInputs) -> Iterator[str]:
    """Kubernetes does not bound a blank: a field with a max must be set."""
    for field, is_bounded in _UNBOUNDED.items():
        if admin.list_clauses(field, "max") and _applies(field, facts) and not is_bounded(facts):
            yield f"unbounded: {field} has a max, and nothing is said"
    caps = admin.list_clauses("grace_period", "max")
    if caps and min(caps) < _GRACE_SECONDS and "terminationGracePeriodSeconds" not in facts.pod:
        yield "unbounded: grace_period has a max below what Kubernetes gives"


def _judge_rule(
    field: str, rule: Mapping[str, Any], scope: RawScope, facts: Facts, admin: AdminInputs, world: World
) -> Iterator[str]:
    values = collect(field, facts, admin, world)
    for value, is_set_by_admin in values:
        if rule.get("max") is not None and value > rule["max"]:
            yield f"{scope.name}: {field} {value} is above {rule['max']}"
        if rule.get("min") is not None and value < rule["min"]:
            yield f"{scope.name}: {field} {value} is below {rule['min']}"
        if is_set_by_admin:
            continue
        if rule.get("options") is not None and value not in rule["options"]:
            yield f"{scope.name}: {field} {value} is not an option"
        if rule.get("allowed") is not None and not any(_is_allowed(field, entry, value) for entry in rule["allowed"]):
            yield f"{scope.name}: {field} {value} is not allowed"
        if any(_is_denied(field, entry, value) for entry in rule.get("denied") or ()):
            yield f"{scope.name}: {field} {value} is denied"
    required = rule.get("required")
    if isinstance(required, list):
        held = facts.pod.get("nodeSelector", {}) if field == "node_selector" else facts.env
        yield from (f"{scope.name}: {field} lacks {key}" for key in required if key not in held)
    elif required and not values and field != "resources.gpu" and _applies(field, facts):
        yield f"{scope.name}: {field} is required"


def _is_allowed(field: str, entry: Any, value: Any) -> bool:
    if field == "image":
        return is_allowed(entry, value)
    return is_within(entry, value) if field == "tolerations" else glob(entry, str(value))


def _is_denied(field: str, entry: Any, value: Any) -> bool:
    if field == "image":
        return is_denied(entry, value)
    return meets(entry, value) if field == "tolerations" else glob(entry, str(value))


def _applies(field: str, facts: Facts) -> bool:
    """Whether such a run has the field."""
    if field in _JOB_FIELDS:
        return facts.is_job
    if field in _LONG_FIELDS:
        return not facts.is_job
    return field not in _SERVED_FIELDS or facts.is_served


def _judge_lock(field: str, facts: Facts, admin: AdminInputs, world: World) -> Iterator[str]:
    default = admin.find_default(field)
    values = collect(field, facts, admin, world)
    if field == "node_selector" and facts.pod.get("affinity", {}) not in [{}, *admin.list_set_values("affinity")]:
        yield from (f"locked: {field} by affinity to {key}" for key in iter_node_keys(facts.pod["affinity"]))
    if default is None:
        if field == "affinity":
            values = [
                (facts.pod.get("affinity"), facts.pod.get("affinity") in [None, *admin.list_set_values("affinity")])
            ]
        yield from (
            f"locked: {field} {value} is the user's" for value, is_set_by_admin in values if not is_set_by_admin
        )
    elif field in _WHOLES:
        whole = _WHOLES[field](facts)
        if whole != default:
            yield f"locked: {field} is {whole}, not {default}"
    elif field.startswith("resources.") and field.count(".") == 1 and field.split(".")[1] not in ("gpu", "disk"):
        yield from _judge_locked_amount(field, facts, admin)
    elif field.startswith(("volumes.", "resources.disk.")) or field == "profile":
        yield from (f"locked: {field} is {value}, not {default}" for value, _ in values if value != default)
    elif field == "image":
        if facts.container["image"] != default:
            yield f"locked: the image is {facts.container['image']}"
        others = [value for value, is_set_by_admin in values[1:] if not is_set_by_admin and value != default]
        yield from (f"locked: the image of a volume is {value}" for value in others)
    elif [value for value, _ in values] != [default] and not (
        field == "resources.gpu" and default.is_zero and not values
    ):
        yield f"locked: {field} is {values}, not {default}"


_WHOLES: Mapping[str, Any] = {
    "node_selector": lambda facts: facts.pod.get("nodeSelector", {}),
    "tolerations": lambda facts: facts.pod.get("tolerations", []),
    "affinity": lambda facts: facts.pod.get("affinity", {}),
    "envs": lambda facts: facts.get_variables(),
}


def _judge_locked_amount(field: str, facts: Facts, admin: AdminInputs) -> Iterator[str]:
    name = field.split(".")[1]
    default = admin.find_default(field)
    request, limit = facts.side(name, "requests"), facts.side(name, "limits")
    if (
        admin.find_locked(f"{field}.requests") is None
        and admin.find_locked(f"{field}.limits") is None
        and request != default
    ):
        yield f"locked: {field} is {request}, not {default}"
    follows = [
        admin.find_default(f"{field}.limits"),
        default,
        request,
        *(list_derived(facts, admin) if name == "mem" else ()),
        admin.find_max(f"{field}.limits", *([field] if name == "mem" else [])),
    ]
    if limit is not None and limit not in follows:
        yield f"locked: the limit of {field} is {limit}"


def _judge_denials(facts: Facts, admin: AdminInputs, world: World) -> Iterator[str]:
    named = admin.scopes[0].rules
    for toleration, is_set_by_admin in collect("tolerations", facts, admin, world):
        key = toleration.get("key", "")
        is_named = any(
            entry["key"] == key and is_within(entry, toleration)
            for entry in named.get("tolerations", {}).get("allowed") or ()
        )
        if (not key or key.lower() in _RESERVED_TAINTS) and not (is_set_by_admin or is_named):
            yield f"denied: toleration {toleration}"
    for value, is_set_by_admin in collect("service_type", facts, admin, world):
        rule = named.get("service_type", {})
        is_named = value in [*(rule.get("allowed") or ()), *(rule.get("options") or ())]
        if value in ("LoadBalancer", "ExternalName") and not (is_set_by_admin or is_named):
            yield f"denied: service type {value}"
    for name, is_set_by_admin in collect("envs", facts, admin, world):
        is_platforms = any(glob(pattern, name) for pattern in _PLATFORM_ENVS)
        if is_platforms and not is_set_by_admin and name not in (named.get("envs", {}).get("allowed") or ()):
            yield f"denied: variable {name}"
    for name, is_set_by_admin in collect("volumes.claim_name", facts, admin, world):
        allowed = named.get("volumes.claim_name", {}).get("allowed") or ()
        if not is_set_by_admin and not any(glob(pattern, name) for pattern in allowed):
            yield f"denied: claim {name}"
    for name, is_set_by_admin in collect("priority_class", facts, admin, world):
        rule = named.get("priority_class", {})
        is_named = name in [*(rule.get("allowed") or ()), *(rule.get("options") or ())]
        if name.startswith("system-") and not (is_set_by_admin or is_named):
            yield f"denied: priority class {name}"
    yield from _judge_namespaces(facts, admin)


def _judge_namespaces(facts: Facts, admin: AdminInputs) -> Iterator[str]:
    """The platform's list lifts the denial; the project's own list, where it has one, must name them as well."""
    affinity = facts.pod.get("affinity", {})
    if affinity in admin.list_set_values("affinity"):
        return
    platform, *projects = admin.scopes
    lists = [platform.rules.get("affinity.namespaces", {}).get("allowed") or ()]
    lists += [scope.rules["affinity.namespaces"]["allowed"] for scope in projects if _rules_namespaces(scope)]
    for term in iter_pod_terms(affinity):
        if "namespaceSelector" in term and not all("*" in allowed for allowed in lists):
            yield f"denied: namespaces by {term['namespaceSelector']}"
        for namespace in term.get("namespaces", []):
            if not all(any(glob(pattern, namespace) for pattern in allowed) for allowed in lists):
                yield f"denied: namespace {namespace}"


def _rules_namespaces(scope: RawScope) -> bool:
    return "allowed" in scope.rules.get("affinity.namespaces", {})
