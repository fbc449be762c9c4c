"""The values that rules are about, taken from the objects: where each stands and whose word it is."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from runyard.domain.admission.admins import Admins
from runyard.domain.admission.amounts import collect_amounts
from runyard.domain.admission.bundle import SCRATCH_VOLUME, SECRETS_VOLUME, Bundle, Placed
from runyard.domain.admission.values import Facts
from runyard.spec.problems import Path

PENDING_TIMEOUT = "runyard.io/pending-timeout"

_JOB: dict[str, tuple[str, ...]] = {
    "backoff_limit": ("spec", "backoffLimit"),
    "timeout": ("spec", "activeDeadlineSeconds"),
    "ttl": ("spec", "ttlSecondsAfterFinished"),
}
_DEPLOYMENT: dict[str, tuple[str, ...]] = {"replicas": ("spec", "replicas")}
_AT_REST = ("ttl", "replicas")
"""What an anchor does not say yet."""
_POD: dict[str, tuple[str, ...]] = {
    "grace_period": ("terminationGracePeriodSeconds",),
    "runtime_class": ("runtimeClassName",),
    "priority_class": ("priorityClassName",),
    "run_as_user": ("securityContext", "runAsUser"),
    "run_as_group": ("securityContext", "runAsGroup"),
    "fs_group": ("securityContext", "fsGroup"),
}
_CAPPED = ("timeout", "pending_timeout", "ttl", "grace_period")
_PLATFORMS: Mapping[str, Any] = MappingProxyType({"replicas": 1, "backoff_limit": 0, "service_type": "ClusterIP"})
"""What the platform sends where nobody said anything, since something must be sent."""
_TYPES = {
    "emptyDir": "empty_dir",
    "ephemeral": "ephemeral",
    "configMap": "config_map",
    "image": "image",
    "persistentVolumeClaim": "persistent_volume_claim",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is there already and belongs to the project, and what the platform itself puts into the environment."""

    project_claims: frozenset[str]
    shared_claims: frozenset[str]
    project_config_maps: frozenset[str]
    platform_envs: Mapping[str, str]
    is_anchor: bool


def collect_facts(bundle: Bundle, admins: Admins, around: Surroundings) -> Facts:
    """Every value of these objects that a policy may rule."""
    facts = Facts()
    _collect_profile(facts, admins)
    if bundle.workload is not None and bundle.pod is not None and bundle.container is not None:
        _collect_scalars(facts, bundle.workload, bundle.pod, admins, around)
        _collect_placement(facts, bundle.pod, admins)
        _collect_environment(facts, bundle.container, admins, around)
        image = bundle.container.content["image"]
        facts.add("image", (*bundle.container.path, "image"), image, is_admins=admins.says_image(image))
    collect_amounts(facts, bundle, admins)
    _collect_volumes(facts, bundle, admins, around)
    for service in bundle.of("Service"):
        _add_said(facts, "service_type", service, ("spec", "type"), admins)
    for secret in bundle.of("Secret"):
        for key in secret.content["data"]:
            facts.add("secrets", (*secret.path, "data", key), key, is_admins=admins.says_secret(key))
    return facts


def is_platforms_env(entry: Mapping[str, Any], around: Surroundings) -> bool:
    """Whether a variable is exactly what the platform puts there."""
    return "value" in entry and around.platform_envs.get(entry["name"]) == entry["value"]


def _add_said(facts: Facts, name: str, part: Placed, keys: tuple[str, ...], admins: Admins) -> None:
    value = part.find(*keys)
    is_platforms = name in _PLATFORMS and value == _PLATFORMS[name]
    is_admins = is_platforms or admins.says(name, value) or _is_cap(name, value, admins)
    facts.add(name, (*part.path, *keys), value, is_admins=is_admins)


def _is_cap(name: str, value: Any, admins: Admins) -> bool:
    """Whether it is what the platform puts where a blank would have no bound."""
    return name in _CAPPED and value in admins.list_caps(name)


def _collect_profile(facts: Facts, admins: Admins) -> None:
    name = None if admins.profile is None else admins.profile.id
    facts.add("profile", ("profile",), name, is_admins=name is not None and admins.says_profile(name))


def _collect_scalars(facts: Facts, workload: Placed, pod: Placed, admins: Admins, around: Surroundings) -> None:
    kind = workload.content["kind"]
    for name, keys in (_JOB if kind == "Job" else _DEPLOYMENT).items():
        if not (around.is_anchor and name in _AT_REST):
            _add_said(facts, name, workload, keys, admins)
    for name, keys in _POD.items():
        _add_said(facts, name, pod, keys, admins)
    _add_said(facts, "image_pull_policy", pod.open("containers", 0), ("imagePullPolicy",), admins)
    waiting = workload.find("metadata", "annotations", PENDING_TIMEOUT)
    seconds = int(waiting) if waiting is not None and re.fullmatch("[0-9]{1,18}", waiting) else None
    path = (*workload.path, "metadata", "annotations", PENDING_TIMEOUT)
    is_admins = admins.says("pending_timeout", seconds) or _is_cap("pending_timeout", seconds, admins)
    facts.add("pending_timeout", path, seconds, is_admins=is_admins)


def _collect_placement(facts: Facts, pod: Placed, admins: Admins) -> None:
    selector = pod.find("nodeSelector") or {}
    facts.wholes["node_selector"] = selector
    facts.names["node_selector"] = frozenset(selector)
    facts.values["node_selector"] = []
    for key, value in selector.items():
        is_admins = admins.says_pair("node_selector", key, value)
        facts.add("node_selector", (*pod.path, "nodeSelector", key), key, is_admins=is_admins)
    tolerations = pod.find("tolerations") or []
    facts.wholes["tolerations"] = tolerations
    facts.values["tolerations"] = []
    for index, toleration in enumerate(tolerations):
        is_admins = admins.says_entry("tolerations", toleration)
        facts.add("tolerations", (*pod.path, "tolerations", index), toleration, is_admins=is_admins)
    affinity = pod.find("affinity")
    facts.wholes["affinity"] = affinity or {}
    is_admins = admins.says("affinity", affinity)
    facts.add("affinity", (*pod.path, "affinity"), affinity, is_admins=is_admins)
    for path, key in _iter_node_keys(affinity or {}, (*pod.path, "affinity")):
        facts.add("node_selector", path, key, is_admins=is_admins)
    for path, namespace in _iter_namespaces(affinity or {}, (*pod.path, "affinity")):
        facts.add("affinity.namespaces", path, namespace, is_admins=is_admins)


def _iter_node_keys(given: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Every key under `matchExpressions` and `matchFields` of node terms, however deep they stand."""
    for name, part in _iter_children(given):
        if name in ("podAffinity", "podAntiAffinity"):
            continue
        if name in ("matchExpressions", "matchFields"):
            for index, requirement in enumerate(part):
                yield (*path, name, index, "key"), requirement["key"]
        else:
            yield from _iter_node_keys(part, (*path, name))


def _iter_namespaces(given: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Every namespace that a pod term names, and `*` for a selector of namespaces, be it empty."""
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


def _collect_environment(facts: Facts, container: Placed, admins: Admins, around: Surroundings) -> None:
    whole: dict[str, str] = {}
    facts.values["envs"] = []
    for variable in container.iter_parts("env"):
        entry = variable.content
        if is_platforms_env(entry, around):
            continue
        name = entry["name"]
        if "value" in entry:
            whole[name] = entry["value"]
            is_admins = admins.says_pair("envs", name, entry["value"])
            facts.add("envs", (*variable.path, "value"), name, is_admins=is_admins)
        else:
            is_admins = admins.says_secret(entry["valueFrom"]["secretKeyRef"]["key"])
            facts.add("envs", (*variable.path, "valueFrom"), name, is_admins=is_admins)
    facts.wholes["envs"] = whole
    facts.names["envs"] = frozenset(value.value for value in facts.values["envs"])


def _collect_volumes(facts: Facts, bundle: Bundle, admins: Admins, around: Surroundings) -> None:
    for source in bundle.iter_sources():
        if source.name in (SCRATCH_VOLUME, SECRETS_VOLUME):
            continue
        content, path = source.part.content, source.part.path
        kind = _TYPES.get(source.kind, source.kind)
        if source.kind == "persistentVolumeClaim":
            claim = content["claimName"]
            if claim in around.shared_claims:
                kind = "shared_volume"
            elif claim in around.project_claims:
                is_admins = bool(admins.find_volumes(claim_name=claim))
                facts.add("volumes.claim_name", (*path, "claimName"), claim, is_admins=is_admins)
        if source.kind == "image":
            image = content["reference"]
            facts.add("image", (*path, "reference"), image, is_admins=bool(admins.find_volumes(image=image)))
        facts.add("volumes.type", path, kind, is_admins=bool(admins.find_volumes(name=source.name, type=kind)))
