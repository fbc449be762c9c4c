"""The pods that are bound to the node, as the kubelet port asks for them."""

from collections.abc import Sequence

from runyard.kube import Object, Reflector
from runyard.node.kubelet_api.local_pods import LocalPod, local_pod_from_object


class BoundPods:
    """Reads a reflector of the node's pods: what is not in it cannot be reached through the port."""

    def __init__(self, pods: Reflector[Object]) -> None:
        self._pods = pods

    def find_pod(self, namespace: str, name: str) -> LocalPod | None:
        """The pod of that name, if it is bound to the node."""
        pod = self._pods.store.find((namespace, name))
        return None if pod is None else local_pod_from_object(pod)

    async def list_pods(self) -> Sequence[Object]:
        """All of them."""
        return self._pods.store.views()
