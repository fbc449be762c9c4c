"""A snapshot of a cluster: what it has, and what its pods ask for. Plain dictionaries, as Kubernetes sends them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """A part of the cluster that the engine may not see."""

    what: str
    """Such as `pods of other namespaces`."""
    missing: str
    """The right that is missing, such as `list pods in all namespaces`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Nodes and the pods on them at one time. Of each object only the fields that decide where a pod fits."""

    at: str
    """When it was taken, in ISO 8601."""
    nodes: tuple[Mapping[str, Any], ...] = ()
    pods: tuple[Mapping[str, Any], ...] = ()
    unseen: tuple[Unseen, ...] = ()
