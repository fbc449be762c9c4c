"""Which pods are on this node, as the agent knows them: nothing else can be read through the port."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from runyard.node.providers.provider import Object

_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


@dataclass(frozen=True, slots=True)
class LocalPod:
    """A pod that is bound to this node."""

    uid: str
    containers: frozenset[str]
    """The names of all containers, init and ephemeral ones as well."""


class LocalPods(Protocol):
    """The pods that are bound to this node. Nothing is cached here: the answer is that of the moment."""

    def find_pod(self, namespace: str, name: str) -> LocalPod | None:
        """The pod of that name; None if there is none, or if it is bound to another node. Never blocks."""

    async def list_pods(self) -> Sequence[Object]:
        """All of them, as v1 Pods with their status."""


def local_pod_from_object(pod: Object) -> LocalPod:
    """What the port needs to know of a v1 Pod."""
    spec = pod.get("spec", {})
    names = (container["name"] for kind in _CONTAINER_LISTS for container in spec.get(kind) or ())
    return LocalPod(uid=pod["metadata"]["uid"], containers=frozenset(names))
