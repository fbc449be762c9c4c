"""How long a pod takes until it is bound and runs: through the virtual node, and created directly at its provider."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.cluster.raw_api import RawApi
from bench.node.beds import NAMESPACE, SHAPE, TENANT, NodeBed, make_pod
from bench.node.pod_watch import PodWatch, watch_pods
from bench.report import progress

DIRECT = "direct"
"""The namespace of the pods that are created directly."""
SCRIPT = "trap 'exit 0' TERM; sleep 3600 & wait"
"""Ends at once when the pod is deleted."""


@dataclass
class Side:
    """Seconds after the create was sent, as a watch of that cluster saw it; one of each per pod."""

    bound: list[float] = field(default_factory=list)
    running: list[float] = field(default_factory=list)


@dataclass
class Starts:
    """Both sides."""

    direct: Side = field(default_factory=Side)
    virtual: Side = field(default_factory=Side)
    remote: Side = field(default_factory=Side)
    """The pods of the virtual node as the provider's own watch saw them."""
    agent_cpu: float = 0.0
    """CPU seconds of the agent per pod, its deletion included."""

    @property
    def overheads(self) -> Sequence[float]:
        """How much longer than the direct pod of its turn each pod took until it ran, sorted."""
        pairs = zip(self.virtual.running, self.direct.running, strict=True)
        return sorted(ours - theirs for ours, theirs in pairs)

    @property
    def returns(self) -> Sequence[float]:
        """From Running at the provider to Running at the local cluster, sorted."""
        pairs = zip(self.virtual.running, self.remote.running, strict=True)
        return sorted(max(0.0, ours - theirs) for ours, theirs in pairs)


async def measure_starts(bed: NodeBed, *, pods: int) -> Starts:
    """One pod at a time, in turns, the first of each side not counted."""
    found = Starts()
    async with bed.local.connect("bench") as local, bed.provider.connect("bench") as provider:
        await bed.provider.create_namespace(provider, DIRECT)
        async with (
            watch_pods(local, namespace=NAMESPACE) as ours,
            watch_pods(provider, namespace=TENANT) as remote,
            watch_pods(provider, namespace=DIRECT) as direct,
        ):
            await _start_direct(provider, direct, "first", Side())
            await _start_virtual(local, ours, remote, "first", Starts())
            cpu = bed.read_cpu()
            for number in range(pods):
                if number % 10 == 0:
                    progress(f"pod starts: {number} of {pods}")
                name = f"start-{number}"
                if number % 2:
                    await _start_direct(provider, direct, name, found.direct)
                await _start_virtual(local, ours, remote, name, found)
                if not number % 2:
                    await _start_direct(provider, direct, name, found.direct)
            found.agent_cpu = (bed.read_cpu() - cpu).own / pods
    return found


async def _start_direct(api: RawApi, watch: PodWatch, name: str, side: Side) -> None:
    path = f"/api/v1/namespaces/{DIRECT}/pods"
    began = time.perf_counter()
    await api.post(path, make_pod(name, script=SCRIPT, runtime_class=None))
    await _note(watch, name, began, side)
    await api.send("DELETE", f"{path}/{name}")
    await watch.get(name).gone.wait()


async def _start_virtual(api: RawApi, watch: PodWatch, remote: PodWatch, name: str, found: Starts) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    began = time.perf_counter()
    created = await api.post(path, make_pod(name, script=SCRIPT, runtime_class=SHAPE))
    remote_name = f"pod-{created['metadata']['uid']}"
    await _note(watch, name, began, found.virtual)
    await _note(remote, remote_name, began, found.remote)
    await api.send("DELETE", f"{path}/{name}")
    await remote.get(remote_name).gone.wait()
    await watch.get(name).gone.wait()


async def _note(watch: PodWatch, name: str, began: float, side: Side) -> None:
    pod = watch.get(name)
    side.bound.append(await pod.bound.wait() - began)
    side.running.append(await pod.running.wait() - began)
