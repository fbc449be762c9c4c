"""A kubelet port in a thread of its own, so that real kubectl processes can be waited for."""

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from runyard.kube.client import Client
from runyard.kube.config import load_kubeconfig
from runyard.kube.resources import PODS
from runyard.node.kubelet_api.local_pods import LocalPod, local_pod_from_object
from runyard.node.kubelet_api.port import KubeletPort
from runyard.node.providers.kubernetes.streams import KubernetesStreams
from runyard.node.providers.kubernetes.usage import read_usage
from runyard.node.providers.provider import LogOptions, Object, PodUsage, StreamKind
from testbed.cluster import Cluster

NODE = "k8s.gpu"


@dataclass
class KnownPods:
    """The pods of the node, by hand."""

    pods: dict[tuple[str, str], Object] = field(default_factory=dict)

    def find_pod(self, namespace: str, name: str) -> LocalPod | None:
        pod = self.pods.get((namespace, name))
        return None if pod is None else local_pod_from_object(pod)

    async def list_pods(self) -> Sequence[Object]:
        return list(self.pods.values())


class StreamingProvider:
    """What `KubernetesProvider` delegates: logs, tunnels and figures."""

    kind = "kubernetes"

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.names: dict[str, str] = {}
        self.upgrades: list[str] = []
        self.streams = KubernetesStreams(client, namespace=namespace, find_remote=self.names.get)

    def read_log(self, uid: str, container: str, options: LogOptions) -> Any:
        return self.streams.read_log(uid, container, options)

    def open_tunnel(
        self,
        kind: StreamKind,
        uid: str,
        container: str | None,
        *,
        method: str,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str],
    ) -> Any:
        self.upgrades.append(headers["Upgrade"])
        return self.streams.open_tunnel(kind, uid, container, method=method, query=query, headers=headers)

    async def read_usage(self) -> Sequence[PodUsage]:
        return await read_usage(self.client, namespace=self.namespace, remote_names=lambda: self.names)


@dataclass
class ServedPort:
    """The port, and how a test adds pods to it."""

    port: KubeletPort
    pods: KnownPods
    provider: StreamingProvider
    address: str

    def add(self, local_pod: Object, remote_name: str) -> None:
        """Let the port know a pod and its copy."""
        metadata = local_pod["metadata"]
        self.pods.pods[metadata["namespace"], metadata["name"]] = local_pod
        self.provider.names[metadata["uid"]] = remote_name


@contextmanager
def serve_port(local: Cluster, provider: Cluster, *, namespace: str = "default") -> Iterator[ServedPort]:
    """A port on this machine's address as the local cluster sees it, with the clusters' admins behind it."""
    address = local.site.addresses.host_ip
    started: Future[ServedPort] = Future()
    stopped = threading.Event()

    async def serve() -> None:
        async with (
            Client.connect(load_kubeconfig(local.kubeconfig)) as local_client,
            Client.connect(load_kubeconfig(provider.kubeconfig)) as provider_client,
        ):
            pods, streaming = KnownPods(), StreamingProvider(provider_client, namespace)
            port = KubeletPort(
                local_client,
                streaming,  # type: ignore[arg-type] # the part that the port uses
                pods,
                node=NODE,
                addresses=[address],
                listen=address,
                port=0,
            )
            running = asyncio.create_task(port.run())
            await asyncio.wait_for(port.wait_listening(), 60)
            started.set_result(ServedPort(port, pods, streaming, address))
            await asyncio.to_thread(stopped.wait)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
            raise

    thread = threading.Thread(target=run, name="kubelet-port")
    thread.start()
    try:
        yield started.result(90)
    finally:
        stopped.set()
        thread.join(30)


def node_object(served: ServedPort) -> Object:
    """The Node, as far as the apiserver needs it to find the port."""
    return {
        "metadata": {"name": NODE},
        "status": {
            "addresses": [{"type": "InternalIP", "address": served.address}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": served.port.port}},
            "conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": "by hand"}],
        },
    }


def get_pod(cluster: Cluster, name: str) -> Object:
    """A pod of the namespace default."""
    pod = cluster.api.get(PODS.path(namespace="default", name=name))
    assert isinstance(pod, dict)
    return pod
