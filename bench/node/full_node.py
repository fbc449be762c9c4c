"""The agent with many pods: how fast they come, what it has in memory then, and what it uses while nothing happens."""

import asyncio
import time
from dataclasses import dataclass

from bench.local.processes import Memory
from bench.node.beds import NAMESPACE, SHAPE, NodeBed, make_pod
from bench.node.pod_watch import watch_pods
from bench.pods import each
from bench.report import progress

LIMIT_SECONDS = 600.0
SETTLE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class FullNode:
    """What was measured."""

    pods: int
    empty: Memory
    """Before the first pod."""
    full: Memory
    """With all pods running."""
    seconds: float
    """From the first create until all pods run at the local cluster."""
    agent_cpu: float
    """CPU seconds of the agent per pod."""
    idle_cores: float


async def measure_full_node(bed: NodeBed, *, pods: int, idle_seconds: float) -> FullNode:
    """Create all pods as fast as the cluster takes them, and look at the agent."""
    async with bed.local.connect("bench") as api, watch_pods(api, namespace=NAMESPACE) as watch:
        empty, cpu = bed.read_memory(), bed.read_cpu()
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"

        async def create(number: int) -> None:
            await api.post(path, make_pod(f"full-{number}", script="sleep 3600", runtime_class=SHAPE))

        progress(f"full node: {pods:,} pods")
        began = time.perf_counter()
        await each(create, count=pods, doing="pods created")
        await watch.wait_running(pods, seconds=LIMIT_SECONDS)
        seconds = time.perf_counter() - began
        used = (bed.read_cpu() - cpu).own
        await asyncio.sleep(SETTLE_SECONDS)  # events are written behind the statuses
        before = bed.read_cpu()
        await asyncio.sleep(idle_seconds)
        idle = (bed.read_cpu() - before).own / idle_seconds
        return FullNode(pods, empty, bed.read_memory(), seconds, used / pods, idle)
