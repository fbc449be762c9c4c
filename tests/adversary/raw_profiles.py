"""The judge's own reading of profiles and base objects: one dictionary of plain values each."""

from collections.abc import Callable, Mapping
from typing import Any

from runyard.spec.kubernetes.quantity import Quantity
from tests.adversary.raw import Sides, read_pairs, read_seconds, read_toleration, snake, to_camel, write_text

_CONTEXT = {"runAsUser": "run_as_user", "runAsGroup": "run_as_group", "fsGroup": "fs_group"}
_OURS = {"memory": "mem"}
_POD = {
    "terminationGracePeriodSeconds": "grace_period",
    "serviceAccountName": "service_account",
    "schedulerName": "scheduler_name",
    "hostAliases": "host_aliases",
    "topologySpreadConstraints": "topology_spread",
    "nodeSelector": "node_selector",
    "tolerations": "tolerations",
    "affinity": "affinity",
    "runtimeClassName": "runtime_class",
    "priorityClassName": "priority_class",
    "imagePullSecrets": "image_pull_secrets",
}
_SPEC = {
    "ttlSecondsAfterFinished": "ttl",
    "activeDeadlineSeconds": "timeout",
    "backoffLimit": "backoff_limit",
    "replicas": "replicas",
    "type": "service_type",
    "ports": "service_ports",
}


def read_profile(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the profile sets, by our field names."""
    given = {snake(key): value for key, value in document.items() if key not in ("id", "name", "description")}
    context = given.pop("security_context", {})
    given |= {_CONTEXT.get(key, key): value for key, value in context.items()}
    return {name: read_field(name, value) for name, value in given.items() if value is not None}


def read_base(document: Mapping[str, Any]) -> dict[str, Any]:
    """What a base object sets, by our field names."""
    spec = document.get("spec", {})
    given = {_SPEC[key]: value for key, value in spec.items() if key in _SPEC}
    pod = spec.get("template", {}).get("spec", {})
    given |= {_POD[key]: value for key, value in pod.items() if key in _POD}
    given |= {_CONTEXT[key]: value for key, value in pod.get("securityContext", {}).items() if key in _CONTEXT}
    for container in pod.get("containers", [])[:1]:
        if "resources" in container:
            given["resources"] = container["resources"]
        if "env" in container:
            given["envs"] = container["env"]
    return {name: read_field(name, value) for name, value in given.items()}


def read_field(name: str, given: Any) -> Any:
    """One field in the form in which the judge compares it."""
    reader = _READERS.get(name)
    return given if reader is None else reader(given)


def read_resources(given: Mapping[str, Any]) -> dict[str, Sides]:
    """Sides by our names, and by Kubernetes' for the rest. A null is a blank, as everywhere in a request."""
    sides: dict[str, Sides] = {}
    for name, value in given.items():
        if value is None:
            continue
        if name in ("requests", "limits"):
            for kubernetes_name, amount in value.items():
                if amount is None:
                    continue
                ours = _OURS.get(kubernetes_name, kubernetes_name)
                sides.setdefault(ours, {})[name] = Quantity.parse(amount)
        elif isinstance(value, Mapping):
            amounts = {side: Quantity.parse(amount) for side, amount in value.items() if amount is not None}
            sides[name] = sides.get(name, {}) | amounts
        else:
            sides[name] = sides.get(name, {}) | {"requests": Quantity.parse(value)}
    return sides


def read_volume(given: Mapping[str, Any]) -> dict[str, Any]:
    """A volume with its spec's keys beside its own."""
    volume = {snake(key): value for key, value in given.items()}
    spec = {snake(key): value for key, value in (volume.pop("spec", None) or {}).items() if value not in (None, "")}
    if "size_limit" in spec:
        spec["size"] = spec.pop("size_limit")
    if volume["volume_type"] == "config_map" and "name" in spec:
        spec["config_map"] = spec.pop("name")
    return {**spec, **volume}


def _read_port(given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        return {"port": int(given), "targetPort": int(given)}
    port = {snake(key): value for key, value in given.items() if value is not None}
    return {"port": int(port["port"]), "targetPort": int(port.get("target_port", port["port"]))}


def _read_secret(given: Any) -> dict[str, Any]:
    return {"name": given} if isinstance(given, str) else {snake(key): value for key, value in given.items()}


def _read_words(given: Any) -> list[str]:
    return [given] if isinstance(given, str) else [write_text(admin) for admin in given]


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "resources": read_resources,
    **dict.fromkeys(("node_selector", "envs", "labels"), read_pairs),
    **dict.fromkeys(("affinity", "topology_spread", "host_aliases"), to_camel),
    **dict.fromkeys(("timeout", "pending_timeout", "ttl", "grace_period"), read_seconds),
    **dict.fromkeys(("run_as_user", "run_as_group", "fs_group", "replicas", "backoff_limit"), int),
    **dict.fromkeys(("command", "args"), _read_words),
    "tolerations": lambda given: [read_toleration(entry) for entry in given],
    "volumes": lambda given: [read_volume(entry) for entry in given],
    "secrets": lambda given: [_read_secret(entry) for entry in given],
    "image_pull_secrets": lambda given: [entry if isinstance(entry, str) else entry["name"] for entry in given],
    "service_ports": lambda given: [_read_port(entry) for entry in given],
}
