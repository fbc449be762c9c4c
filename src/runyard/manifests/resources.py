"""A container's requests and limits."""

from typing import Any

from runyard.domain.effective_spec import EffectiveSpec
from runyard.spec.resources import KUBERNETES_NAMES


def render_resources(spec: EffectiveSpec) -> dict[str, Any]:
    """Under Kubernetes' names; a side that nobody set is left out, and so are no GPUs."""
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for name, sides in spec.resources.items():
        kubernetes_name = KUBERNETES_NAMES.get(name, name)
        if sides.request is not None:
            requests[kubernetes_name] = sides.request.text
        if sides.limit is not None:
            limits[kubernetes_name] = sides.limit.text
    if spec.gpu and spec.gpu_resource:
        requests[spec.gpu_resource] = limits[spec.gpu_resource] = str(spec.gpu)
    return {side: amounts for side, amounts in (("requests", requests), ("limits", limits)) if amounts}
