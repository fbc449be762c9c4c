"""Waiting for what a cluster brings about by itself."""

import asyncio
from collections.abc import Awaitable, Callable

from runyard.kube.client import Client
from runyard.kube.resources import CONFIG_MAPS
from testbed.cluster import Cluster


async def wait_until(condition: Callable[[], Awaitable[bool]], *, seconds: float = 90.0) -> None:
    """Ask again until it is true; TimeoutError when it never is."""
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 - the event happens on the cluster
            await asyncio.sleep(0.2)


async def forget_history(client: Client, control_plane: Cluster) -> None:
    """Make every resourceVersion read so far too old.

    Something is written, etcd is compacted, and the apiserver restarted: it answers old lists and watches from
    its own memory as long as it has them there.
    """
    await client.apply(CONFIG_MAPS, {"metadata": {"name": "newest"}}, namespace="default", field_manager="t")
    await client.delete(CONFIG_MAPS, "newest", namespace="default")
    await asyncio.to_thread(control_plane.compact_etcd)
    control_plane.kill("kube-apiserver")
    control_plane.start("kube-apiserver")
    await asyncio.to_thread(control_plane.wait_ready)
