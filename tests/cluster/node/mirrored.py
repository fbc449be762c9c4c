"""A mirror between two real clusters: a control plane without nodes, and a provider that runs pods."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from runyard.kube import Client, NotFound
from runyard.kube.resources import NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS
from runyard.node.admission.refusal import Refusal
from runyard.node.event_recorder import EventRecorder
from runyard.node.mirror.pod_mirror import PodMirror, bound_pods
from runyard.node.mirror.pod_reconciler import MirrorSettings, Owner
from runyard.node.mirror.statuses import StatusSettings
from runyard.node.offer import Shape
from runyard.node.providers.kubernetes.provider import KubernetesProvider, ProviderTiming

Object = dict[str, Any]
FOREIGN = Refusal("NotBoundByAgent", "the pod was not put on this node by its agent")
SHAPE = Shape("gpu-1x", "nvidia", {})
QUICK = ProviderTiming(probe_seconds=0.5, down_after_seconds=1.0)
WAIT_SECONDS = 60.0
AGENT_ADDRESS = "192.0.2.10"


@dataclass
class Mirrored:
    """Both sides, and what the mirror told its owner."""

    local: Client
    remote: Client
    namespace: str
    """On the local cluster."""
    remote_namespace: str
    node: str
    gone: list[str] = field(default_factory=list)
    foreign: set[str] = field(default_factory=set)
    """Names of pods that the agent did not bind."""

    @asynccontextmanager
    async def mirror(
        self, *, through: Client | None = None, timing: ProviderTiming = QUICK, allows_tokens: bool = False
    ) -> AsyncIterator[KubernetesProvider]:
        """Run a mirror; the end of the block is a crash: nothing is finished."""
        settings = MirrorSettings(
            status=StatusSettings(host_address=AGENT_ADDRESS),
            unready_after_seconds=1.0,
            allows_tokens=allows_tokens,
        )
        owner = Owner(
            find_shape=lambda pod: SHAPE,
            find_refusal=lambda pod: FOREIGN if pod["metadata"]["name"] in self.foreign else None,
            on_gone=self.gone.append,
        )
        provider = KubernetesProvider(
            through or self.remote, namespace=self.remote_namespace, node=self.node, timing=timing
        )
        async with provider, bound_pods(self.local, self.node) as pods:
            recorder = EventRecorder(self.local, component=self.node)
            mirror = PodMirror(self.local, provider, pods, owner=owner, settings=settings, recorder=recorder)
            task, events = asyncio.create_task(mirror.run()), asyncio.create_task(recorder.run())
            try:
                yield provider
            finally:
                task.cancel()
                events.cancel()
                await asyncio.wait([task, events])
                assert task.cancelled(), task.exception()

    async def create(self, name: str, *, metadata: Object | None = None, **spec: Any) -> Object:
        """Create a pod, and bind it to the node, as the agent does."""
        body = {
            "metadata": {"name": name, **(metadata or {})},
            "spec": {"schedulerName": "k8s.gpu", "terminationGracePeriodSeconds": 1, **spec},
        }
        created = await self.local.create(PODS, body, namespace=self.namespace)
        await self.local.bind(name, namespace=self.namespace, node=self.node, uid=created["metadata"]["uid"])
        return created

    async def find(self, name: str) -> Object | None:
        """The local pod."""
        try:
            return await self.local.get(PODS, name, namespace=self.namespace)
        except NotFound:
            return None

    async def find_remote(self, pod: Mapping[str, Any]) -> Object | None:
        """The pod at the provider."""
        try:
            return await self.remote.get(PODS, f"pod-{pod['metadata']['uid']}", namespace=self.remote_namespace)
        except NotFound:
            return None

    async def wait(self, name: str, is_so: Callable[[Object], bool], *, seconds: float = WAIT_SECONDS) -> Object:
        """The local pod, once it is so."""
        pod: Object | None = None
        try:
            async with asyncio.timeout(seconds):
                while True:
                    pod = await self.find(name)
                    if pod is not None and is_so(pod):
                        return pod
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"{name} is not so: {pod and pod['status']}") from None

    async def wait_gone(self, name: str, *, seconds: float = WAIT_SECONDS) -> None:
        """Return once there is no such local pod."""
        async with asyncio.timeout(seconds):
            while await self.find(name) is not None:  # noqa: ASYNC110 - it happens on the cluster
                await asyncio.sleep(0.1)


@asynccontextmanager
async def joined(local: Client, remote: Client, *, remote_namespace: str) -> AsyncIterator[Mirrored]:
    """A node and a namespace of a test's own on the local cluster."""
    name = f"t-{secrets.token_hex(4)}"
    await local.create(NODES, {"metadata": {"name": name}})
    await local.create(NAMESPACES, {"metadata": {"name": name}})
    async with asyncio.timeout(WAIT_SECONDS):
        while not await _has_account(local, namespace=name):  # noqa: ASYNC110 - made by a controller
            await asyncio.sleep(0.05)
    yield Mirrored(local, remote, namespace=name, remote_namespace=remote_namespace, node=name)
    await local.delete(NODES, name)


def shell(script: str, **fields: Any) -> list[Object]:
    """One container that runs a script."""
    return [
        {
            "name": "main",
            "image": "busybox:1.36",
            "imagePullPolicy": "Never",
            "command": ["sh", "-c", script],
            **fields,
        }
    ]


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether the pod's condition Ready is true."""
    return condition(pod, "Ready").get("status") == "True"


def condition(pod: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """The condition of that type; empty if there is none."""
    found: Sequence[Mapping[str, Any]] = pod["status"].get("conditions") or ()
    return next((each for each in found if each["type"] == kind), {})


def has_phase(*phases: str) -> Callable[[Object], bool]:
    """Whether the pod is in one of these phases."""
    return lambda pod: pod["status"].get("phase") in phases


def ended(pod: Mapping[str, Any], container: str = "main", field: str = "state") -> Mapping[str, Any]:
    """How a container ended; empty if it did not."""
    statuses = [*(pod["status"].get("initContainerStatuses") or ()), *(pod["status"].get("containerStatuses") or ())]
    found: Mapping[str, Any] = next((status for status in statuses if status["name"] == container), {})
    state: Mapping[str, Any] = (found.get(field) or {}).get("terminated") or {}
    return state


async def _has_account(local: Client, *, namespace: str) -> bool:
    try:
        await local.get(SERVICE_ACCOUNTS, "default", namespace=namespace)
    except NotFound:
        return False
    return True
