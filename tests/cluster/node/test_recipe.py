"""The provider of the recipe runs pods of a real cluster, through the agent itself."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

from examples.virtual_node import timer_provider
from examples.virtual_node.timer_provider import TimerProvider
from runyard.kube import Client, load_kubeconfig
from runyard.kube.resources import PODS
from runyard.node.agent import Agent
from runyard.node.install import render_policies
from runyard.node.node_settings import NodeSettings
from runyard.node.offer import Offer
from runyard.node.offer_file import load_offer
from runyard.telemetry.node_metrics import NodeMetrics
from testbed.cluster import Cluster
from tests.cluster.node.agent_bed import FILLING, NODE, is_filling, wait_for

OFFER = b"""
capacity: {cpu: 1, memory: 1Gi, nvidia.com/gpu: 1, pods: 2}
shapes: [{name: timer, handler: nvidia, limits: {cpu: 100m, memory: 64Mi, gpu: 0}}]
"""


async def offers() -> AsyncIterator[Offer]:
    yield load_offer(OFFER)


def test_recipe_is_short_when_its_lines_are_counted() -> None:
    assert len(Path(timer_provider.__file__).read_text().splitlines()) < 200


async def test_pod_runs_and_succeeds_when_the_provider_is_the_recipe(local_cluster: Cluster) -> None:
    async with Client.connect(load_kubeconfig(local_cluster.kubeconfig)) as client:
        for policy in render_policies(NODE, username="admin", filling=FILLING):
            local_cluster.kubectl("apply", "-f", "-", stdin=json.dumps(policy))
        settings = NodeSettings(address=local_cluster.site.addresses.host_ip, port=0)
        agent = Agent(client, settings, make_provider=TimerProvider, follow_offers=offers, metrics=NodeMetrics())
        running = asyncio.create_task(agent.run())
        try:
            await asyncio.to_thread(wait_for, "an agent that is ready", lambda: agent.is_ready)
            await asyncio.to_thread(wait_for, "filled pods", lambda: is_filling(local_cluster, "timer"))
            container = {"name": "main", "image": "timer", "args": ["0.5"]}
            spec = {"runtimeClassName": "timer", "restartPolicy": "Never", "containers": [container]}
            pod = {"metadata": {"name": "timed"}, "spec": spec}
            await client.create(PODS, pod, namespace="default")
            phase = ("get", "pod", "timed", "-o", "jsonpath={.status.phase}")
            await asyncio.to_thread(wait_for, "its end", lambda: local_cluster.kubectl(*phase) == "Succeeded")
        finally:
            running.cancel()
            await asyncio.wait([running])
