"""Security contexts: what Pod Security requires, and the user and groups of the run."""

from typing import Any

from runyard.domain.effective_spec import EffectiveSpec


def render_pod_security(spec: EffectiveSpec) -> dict[str, Any]:
    """The security context of the pod. Never root, whatever the Pod Security level."""
    context: dict[str, Any] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if spec.run_as_user is not None:
        context["runAsUser"] = spec.run_as_user
    if spec.run_as_group is not None:
        context["runAsGroup"] = spec.run_as_group
    if spec.fs_group is not None:
        context["fsGroup"] = spec.fs_group
        # Skips the recursive chown of a volume that has the group already; it takes minutes for a large volume.
        context["fsGroupChangePolicy"] = "OnRootMismatch"
    return context


def render_container_security(spec: EffectiveSpec) -> dict[str, Any]:
    """The security context of the container."""
    if spec.pod_security == "baseline":
        return {"privileged": False}
    return {"privileged": False, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
