"""The resource requests and limits of a container."""

from typing import Any

from runyard.domain.effective_spec import EffectiveSpec
from runyard.spec.resources import KUBERNETES_NAMES


def render_resources(spec: EffectiveSpec) -> dict[str, Any]:
    """Requests and limits under Kubernetes' names, without those that nobody set and without 0 GPUs."""
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for name, sides in spec.resources.items():
        kubernetes_name = KUBERNETES_NAMES.get(name, name)
        if sides.requests is not None:
            requests[kubernetes_name] = sides.requests.text
        if sides.limits is not None:
            limits[kubernetes_name] = sides.limits.text
    if spec.gpu and spec.gpu_resource:
        requests[spec.gpu_resource] = limits[spec.gpu_resource] = str(spec.gpu)
    return {side: amounts for side, amounts in (("requests", requests), ("limits", limits)) if amounts}
