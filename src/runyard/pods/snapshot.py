"""A snapshot of a cluster: what it has, and what its pods ask for. Plain dictionaries, as Kubernetes sends them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runyard.spec.kubernetes.quantity import Quantity, QuantityError

MOST_RESOURCES = 100
"""How many different resources of nodes are added up; the others are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """A part of the cluster that the engine may not see, or has not seen lately."""

    what: str
    """Such as `pods of other namespaces`."""
    missing: str
    """What it lacks: a right, such as `list pods in all namespaces`, or an answer, and why none comes."""
    since: str | None = None
    """The snapshot shows it as it was then, in ISO 8601. None: not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Nodes and the pods on them at one time. Of each object only the fields that decide where a pod fits."""

    at: str
    """Since when it may be out of date, in ISO 8601: when it was taken, or when its stalest part was last seen."""
    nodes: tuple[Mapping[str, Any], ...] = ()
    pods: tuple[Mapping[str, Any], ...] = ()
    unseen: tuple[Unseen, ...] = ()


def sum_allocatable(snapshot: Snapshot) -> dict[str, str]:
    """What all nodes that take pods have for them, by resource. Leaves out amounts that cannot be read."""
    total: dict[str, Quantity] = {}
    for node in snapshot.nodes:
        if (node.get("spec") or {}).get("unschedulable"):
            continue
        for resource, given in ((node.get("status") or {}).get("allocatable") or {}).items():
            if resource not in total and len(total) >= MOST_RESOURCES:
                continue
            try:
                amount = Quantity.parse(given)
                total[resource] = total[resource] + amount if resource in total else amount
            except QuantityError:
                continue
    return {resource: amount.text for resource, amount in sorted(total.items())}
