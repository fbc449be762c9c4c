"""A pod that passes *restricted*, for tests to modify."""

from typing import Any

from runyard.pods.security import Level, check_pod_security

Object = dict[str, Any]


def container(name: str = "main", *, context: Object | None = None, **more: Any) -> Object:
    obeying = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {"name": name, "image": "tool", "securityContext": {**obeying, **(context or {})}, **more}


def pod(
    *containers: Object, context: Object | None = None, annotations: dict[str, str] | None = None, **spec: Any
) -> Object:
    obeying = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pod", "annotations": annotations or {}},
        "spec": {
            "containers": list(containers) or [container()],
            "securityContext": {**obeying, **(context or {})},
            **spec,
        },
    }


def judge(given: Object, *, level: Level = "restricted", version: str = "latest") -> dict[str, str]:
    """The details of violations, by check."""
    return {found.check: found.detail for found in check_pod_security(given, level=level, version=version)}
