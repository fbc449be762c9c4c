"""What a provider offers: shapes, which become RuntimeClasses, and the capacity that all pods share."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from runyard.spec.kubernetes.quantity import Quantity

CPU = "cpu"
MEMORY = "memory"
GPU = "nvidia.com/gpu"
PODS = "pods"

CLASS_LABEL = "k8s.gpu"
"""The label of the node's RuntimeClasses and admission objects; its value is the name of the node."""
LIMIT_ANNOTATIONS = {CPU: "limits.k8s.gpu/cpu", MEMORY: "limits.k8s.gpu/memory", GPU: "limits.k8s.gpu/default"}
"""The annotation of a RuntimeClass that states the limit of a resource."""

Amounts = Mapping[str, Quantity]
"""Quantities by the name of the resource."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One RuntimeClass of the node: what a pod of it gets where it states nothing, and at most."""

    name: str
    handler: str
    limits: Amounts
    """Of `CPU`, `MEMORY` and `GPU`: the most that a pod of this class may ask for, summed over its containers."""
    largest_machine: Amounts = field(default_factory=dict)
    """What the provider's largest machine for this class has; a pod above it fits nowhere. Empty: unknown."""
    remote_class: str | None = None
    """The RuntimeClass that the provider runs such pods with; None: none."""
    limit_texts: Mapping[str, str] = field(default_factory=dict)
    """`limits` as they were written, for the annotations of the RuntimeClass: `8000m` stays `8000m`."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Everything that a provider offers."""

    shapes: Mapping[str, Shape]
    """By name."""
    capacity: Amounts
    """Of `CPU`, `MEMORY`, `GPU` and `PODS`, and of whatever else the provider counts."""
