"""Collects the values that rules apply to: each with its path, and whether the admin set it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from runyard.domain.admission.admin_inputs import AdminInputs
from runyard.domain.admission.amounts import collect_amounts
from runyard.domain.admission.bundle import PLATFORM_VOLUMES, Bundle, ObjectPart
from runyard.domain.admission.values import Facts
from runyard.spec.launcher import Launcher
from runyard.spec.problems import Path

PENDING_TIMEOUT = "runyard.io/pending-timeout"
TIMEOUT, TTL, REPLICAS = (f"runyard.io/{name}" for name in ("timeout", "ttl", "replicas"))

_JOB: dict[str, tuple[str, ...]] = {
    "backoff_limit": ("spec", "backoffLimit"),
    "timeout": ("spec", "activeDeadlineSeconds"),
    "ttl": ("spec", "ttlSecondsAfterFinished"),
}
_DEPLOYMENT: dict[str, tuple[str, ...]] = {"replicas": ("spec", "replicas")}
_OF_ANCHORS = {"timeout": TIMEOUT, "ttl": TTL, "replicas": REPLICAS}
"""Fields that an anchor states in annotations: our own timer, and patches that come later, obey them."""
_POD: dict[str, tuple[str, ...]] = {
    "grace_period": ("terminationGracePeriodSeconds",),
    "runtime_class": ("runtimeClassName",),
    "priority_class": ("priorityClassName",),
    "run_as_user": ("securityContext", "runAsUser"),
    "run_as_group": ("securityContext", "runAsGroup"),
    "fs_group": ("securityContext", "fsGroup"),
}
_CAPPED = ("timeout", "pending_timeout", "ttl", "grace_period")
_PLATFORM_VALUES: Mapping[str, Any] = MappingProxyType({"replicas": 1, "backoff_limit": 0, "service_type": "ClusterIP"})
"""Values that the platform sends where nobody set one."""
_TYPES = {
    "emptyDir": "empty_dir",
    "ephemeral": "ephemeral",
    "configMap": "config_map",
    "image": "image",
    "persistentVolumeClaim": "persistent_volume_claim",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectContext:
    """What the project already has in the cluster, and the platform's own environment variables."""

    project_claims: frozenset[str]
    shared_claims: frozenset[str]
    platform_envs: Mapping[str, str]
    is_anchor: bool
    platform_secrets: frozenset[str] = frozenset()
    """Keys of the run's Secret that the platform sets, and the variables of these names."""
    launcher: Launcher | None = None
    has_registry_secret: bool = False
    run_uid: str | None = None


def collect_facts(bundle: Bundle, admin: AdminInputs, context: ProjectContext) -> Facts:
    """Collect every value of these objects that a policy can rule."""
    facts = Facts()
    _collect_profile(facts, admin)
    if bundle.workload is not None and bundle.pod is not None and bundle.container is not None:
        _collect_scalars(facts, bundle.workload, bundle.pod, admin, context)
        _collect_placement(facts, bundle.pod, admin)
        _collect_environment(facts, bundle.container, admin, context)
        image = bundle.container.content["image"]
        facts.add("image", (*bundle.container.path, "image"), image, is_set_by_admin=admin.sets_image(image))
    collect_amounts(facts, bundle, admin)
    _collect_volumes(facts, bundle, admin, context)
    for service in bundle.of("Service"):
        _add_scalar(facts, "service_type", service, ("spec", "type"), admin)
    for secret in bundle.of("Secret"):
        for key in secret.content["data"]:
            if key in context.platform_secrets:
                continue
            facts.add("secrets", (*secret.path, "data", key), key, is_set_by_admin=admin.uses_secret(key))
    return facts


def is_platforms_env(entry: Mapping[str, Any], context: ProjectContext) -> bool:
    """Whether a variable has exactly the value that the platform sets, or is read from the platform's own secret."""
    if "value" not in entry:
        return bool(entry["name"] in context.platform_secrets)
    return bool(context.platform_envs.get(entry["name"]) == entry["value"])


def _add_scalar(facts: Facts, name: str, part: ObjectPart, keys: tuple[str, ...], admin: AdminInputs) -> None:
    value = part.find(*keys)
    facts.add(name, (*part.path, *keys), value, is_set_by_admin=_is_set_by_admin(name, value, admin))


def _is_set_by_admin(name: str, value: Any, admin: AdminInputs) -> bool:
    is_platforms = name in _PLATFORM_VALUES and value == _PLATFORM_VALUES[name]
    return is_platforms or admin.sets(name, value) or _is_maximum(name, value, admin)


def _is_maximum(name: str, value: Any, admin: AdminInputs) -> bool:
    """Whether the value is the policy's `max`, which fills a blank that would be unbounded."""
    return name in _CAPPED and value in admin.list_maxima(name)


def _collect_profile(facts: Facts, admin: AdminInputs) -> None:
    name = None if admin.profile is None else admin.profile.id
    facts.add("profile", ("profile",), name, is_set_by_admin=name is not None and admin.implies_profile(name))


def _collect_scalars(
    facts: Facts, workload: ObjectPart, pod: ObjectPart, admin: AdminInputs, context: ProjectContext
) -> None:
    kind = workload.content["kind"]
    for name, keys in (_JOB if kind == "Job" else _DEPLOYMENT).items():
        if context.is_anchor and name in _OF_ANCHORS:
            _add_annotation(facts, name, workload, _OF_ANCHORS[name], admin)
        else:
            _add_scalar(facts, name, workload, keys, admin)
    for name, keys in _POD.items():
        _add_scalar(facts, name, pod, keys, admin)
    _add_scalar(facts, "image_pull_policy", pod.open("containers", 0), ("imagePullPolicy",), admin)
    _add_annotation(facts, "pending_timeout", workload, PENDING_TIMEOUT, admin)


def find_number(workload: ObjectPart, annotation: str) -> int | None:
    """The number that an annotation states, or None. `labels_and_annotations` refuses other texts."""
    given = workload.find("metadata", "annotations", annotation)
    return int(given) if given is not None and re.fullmatch("[0-9]{1,18}", given) else None


def _add_annotation(facts: Facts, name: str, workload: ObjectPart, annotation: str, admin: AdminInputs) -> None:
    value = find_number(workload, annotation)
    path = (*workload.path, "metadata", "annotations", annotation)
    facts.add(name, path, value, is_set_by_admin=_is_set_by_admin(name, value, admin))


def _collect_placement(facts: Facts, pod: ObjectPart, admin: AdminInputs) -> None:
    selector = pod.find("nodeSelector") or {}
    facts.wholes["node_selector"] = selector
    facts.names["node_selector"] = frozenset(selector)
    facts.values["node_selector"] = []
    for key, value in selector.items():
        is_set_by_admin = admin.sets_pair("node_selector", key, value)
        facts.add("node_selector", (*pod.path, "nodeSelector", key), key, is_set_by_admin=is_set_by_admin)
    tolerations = pod.find("tolerations") or []
    facts.wholes["tolerations"] = tolerations
    facts.values["tolerations"] = []
    for index, toleration in enumerate(tolerations):
        is_set_by_admin = admin.sets_item("tolerations", toleration)
        facts.add("tolerations", (*pod.path, "tolerations", index), toleration, is_set_by_admin=is_set_by_admin)
    affinity = pod.find("affinity")
    facts.wholes["affinity"] = affinity or {}
    is_set_by_admin = admin.sets("affinity", affinity)
    facts.add("affinity", (*pod.path, "affinity"), affinity, is_set_by_admin=is_set_by_admin)
    for path, key in _iter_node_keys(affinity or {}, (*pod.path, "affinity")):
        facts.add("node_selector", path, key, is_set_by_admin=is_set_by_admin)
    for path, namespace in _iter_namespaces(affinity or {}, (*pod.path, "affinity")):
        facts.add("affinity.namespaces", path, namespace, is_set_by_admin=is_set_by_admin)


def _iter_node_keys(given: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Every key in `matchExpressions` and `matchFields` of node terms, at any depth."""
    for name, part in _iter_children(given):
        if name in ("podAffinity", "podAntiAffinity"):
            continue
        if name in ("matchExpressions", "matchFields"):
            for index, requirement in enumerate(part):
                yield (*path, name, index, "key"), requirement["key"]
        else:
            yield from _iter_node_keys(part, (*path, name))


def _iter_namespaces(given: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Every namespace that a pod term names. A namespace selector, empty or not, counts as `*`."""
    for name, part in _iter_children(given):
        if name == "namespaces":
            yield from (((*path, name, index), namespace) for index, namespace in enumerate(part))
        elif name == "namespaceSelector":
            yield (*path, name), "*"
        elif name != "labelSelector":
            yield from _iter_namespaces(part, (*path, name))


def _iter_children(given: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(given, dict):
        yield from given.items()
    elif isinstance(given, list):
        yield from enumerate(given)


def _collect_environment(facts: Facts, container: ObjectPart, admin: AdminInputs, context: ProjectContext) -> None:
    """Every variable, whether its value is in the object or in the run's Secret."""
    whole: dict[str, Any] = {}
    facts.values["envs"] = []
    for variable in container.iter_parts("env"):
        entry = variable.content
        if is_platforms_env(entry, context):
            continue
        name = entry["name"]
        if "value" in entry:
            whole[name] = entry["value"]
            is_set_by_admin = admin.sets_pair("envs", name, entry["value"])
            facts.add("envs", (*variable.path, "value"), name, is_set_by_admin=is_set_by_admin)
        else:
            whole[name] = entry["valueFrom"]
            is_set_by_admin = admin.uses_secret_as_variable(name)
            facts.add("envs", (*variable.path, "valueFrom"), name, is_set_by_admin=is_set_by_admin)
    facts.wholes["envs"] = whole
    facts.names["envs"] = frozenset(value.value for value in facts.values["envs"])


def _collect_volumes(facts: Facts, bundle: Bundle, admin: AdminInputs, context: ProjectContext) -> None:
    for source in bundle.iter_sources():
        if source.name in PLATFORM_VOLUMES:
            continue
        content, path = source.part.content, source.part.path
        kind = _TYPES.get(source.kind, source.kind)
        if source.kind == "persistentVolumeClaim":
            claim = content["claimName"]
            if claim in context.shared_claims:
                kind = "shared_volume"
            elif claim in context.project_claims:
                is_set_by_admin = bool(admin.find_volumes(claim_name=claim))
                facts.add("volumes.claim_name", (*path, "claimName"), claim, is_set_by_admin=is_set_by_admin)
        if source.kind == "image":
            image = content["reference"]
            facts.add("image", (*path, "reference"), image, is_set_by_admin=bool(admin.find_volumes(image=image)))
        facts.add("volumes.type", path, kind, is_set_by_admin=bool(admin.find_volumes(name=source.name, type=kind)))
