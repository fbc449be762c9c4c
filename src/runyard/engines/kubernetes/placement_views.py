"""What a snapshot keeps of nodes and pods: narrow structs, decoded from the wire. At most 1 KB per pod."""

import sys
from typing import Any

import msgspec

from runyard.kube.views import Metadata, View
from runyard.pods.demand import pod_requests
from runyard.pods.fields import UnreadablePod

MOST_CONTAINERS = 100
"""How many containers of a pod are counted; Kubernetes has no limit of its own."""
_NO_AMOUNTS: dict[str, str] = {}


class Resources(msgspec.Struct, frozen=True, gc=False):
    """What a container requests."""

    requests: dict[str, str] = msgspec.field(default_factory=dict)


_NO_RESOURCES = Resources()


class PlacedContainer(msgspec.Struct, frozen=True, gc=False):
    """A container, as far as it takes room."""

    resources: Resources = _NO_RESOURCES
    restart_policy: str = msgspec.field(default="", name="restartPolicy")


class PlacedSpec(msgspec.Struct, frozen=True, gc=False):
    """Where a pod is, and what it requests. The lists are emptied once they are added up."""

    node_name: str = msgspec.field(default="", name="nodeName")
    priority: int = 0
    containers: tuple[PlacedContainer, ...] = ()
    init_containers: tuple[PlacedContainer, ...] = msgspec.field(default=(), name="initContainers")
    resources: Resources = _NO_RESOURCES
    overhead: dict[str, str] = msgspec.field(default_factory=dict)
    total: tuple[str, ...] = msgspec.field(default=(), name="runyard.io/total")
    """Resources and amounts in turn."""


class PlacedStatus(msgspec.Struct, frozen=True, gc=False):
    """The phase of a pod."""

    phase: str = "Pending"


_PENDING = PlacedStatus()


class PlacedPod(View, frozen=True, gc=False):
    """A pod that takes room, or waits for it."""

    metadata: Metadata
    spec: PlacedSpec = PlacedSpec()
    status: PlacedStatus = _PENDING

    def __post_init__(self) -> None:
        """Add up the requests, and share the strings that many pods have."""
        spec = self.spec
        msgspec.structs.force_setattr(spec, "total", _add_up(spec))
        for field in ("containers", "init_containers"):
            msgspec.structs.force_setattr(spec, field, ())
        msgspec.structs.force_setattr(spec, "resources", _NO_RESOURCES)
        msgspec.structs.force_setattr(spec, "overhead", _NO_AMOUNTS)
        msgspec.structs.force_setattr(spec, "node_name", sys.intern(spec.node_name))
        msgspec.structs.force_setattr(self.status, "phase", sys.intern(self.status.phase))


class NodeSpec(msgspec.Struct, frozen=True, gc=False):
    """What keeps pods away from a node."""

    unschedulable: bool = False
    taints: tuple[dict[str, Any], ...] = ()


class NodeCondition(msgspec.Struct, frozen=True, gc=False):
    """One condition of a node."""

    type: str
    status: str = "Unknown"
    reason: str = ""


class NodeStatus(msgspec.Struct, frozen=True, gc=False):
    """What a node has for pods."""

    allocatable: dict[str, str] = msgspec.field(default_factory=dict)
    conditions: tuple[NodeCondition, ...] = ()


class NodeMetadata(Metadata, frozen=True, gc=False):
    """Name and labels of a node."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)


class PlacingNode(View, frozen=True, gc=False):
    """A node, as far as it decides where pods fit."""

    metadata: NodeMetadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


def _add_up(spec: PlacedSpec) -> tuple[str, ...]:
    """The requests of a pod. One whose amounts cannot be read counts as requesting nothing."""
    body = {
        "containers": [_plain(container) for container in spec.containers[:MOST_CONTAINERS]],
        "initContainers": [_plain(container) for container in spec.init_containers[:MOST_CONTAINERS]],
        "resources": {"requests": spec.resources.requests},
        "overhead": spec.overhead,
    }
    try:
        total = pod_requests(body, apply_defaults=False)
    except UnreadablePod:
        return ()
    return tuple(part for name, amount in total.items() for part in (sys.intern(name), sys.intern(amount.text)))


def _plain(container: PlacedContainer) -> dict[str, Any]:
    policy = {"restartPolicy": container.restart_policy} if container.restart_policy else {}
    return {"resources": {"requests": container.resources.requests}, **policy}
