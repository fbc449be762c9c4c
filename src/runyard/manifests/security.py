"""Security contexts: what Pod Security asks, and the identity the run was given."""

from typing import Any

from runyard.domain.effective_spec import EffectiveSpec


def render_pod_security(spec: EffectiveSpec) -> dict[str, Any]:
    """Of the pod. Never root, at any level."""
    context: dict[str, Any] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if spec.run_as_user is not None:
        context["runAsUser"] = spec.run_as_user
    if spec.run_as_group is not None:
        context["runAsGroup"] = spec.run_as_group
    if spec.fs_group is not None:
        context["fsGroup"] = spec.fs_group
        # A volume that has the group already is not walked file by file again, which takes minutes for a large one.
        context["fsGroupChangePolicy"] = "OnRootMismatch"
    return context


def render_container_security(spec: EffectiveSpec) -> dict[str, Any]:
    """Of the container."""
    if spec.pod_security == "baseline":
        return {"privileged": False}
    return {"privileged": False, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
