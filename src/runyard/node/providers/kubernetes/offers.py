"""What the provider's cluster offers: its RuntimeClasses with limits, and how much all pods may have together.

The capacity is that of a ConfigMap if one is named, else the least of the namespace's ResourceQuotas, else the sum of
the machines that take pods.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

from runyard.kube import Client, Forbidden, KubeError
from runyard.kube.resources import CONFIG_MAPS, NODES, RESOURCE_QUOTAS, RUNTIME_CLASSES
from runyard.node.offer import CPU, GPU, MEMORY, PODS, Amounts, Offer
from runyard.pods.snapshot import Snapshot, sum_allocatable
from runyard.spec.kubernetes.quantity import Quantity, QuantityError

POLL_SECONDS = 30.0
RESOURCES = (CPU, MEMORY, GPU, PODS)
_QUOTA_NAMES = {
    CPU: ("requests.cpu", "cpu", "limits.cpu"),
    MEMORY: ("requests.memory", "memory", "limits.memory"),
    GPU: (f"requests.{GPU}", f"limits.{GPU}"),
    PODS: ("pods", "count/pods"),
}

ReadClasses = Callable[[Iterable[Mapping[str, Any]], Amounts], Offer]
"""The offer of RuntimeClasses that share a capacity."""

_log = logging.getLogger(__name__)


async def follow_offers(
    client: Client, *, namespace: str, capacity_map: str | None, read_classes: ReadClasses
) -> AsyncIterator[Offer]:
    """The offer, and again whenever it changes. While the provider cannot be asked, the last one holds."""
    last: Offer | None = None
    while True:
        try:
            offer = await read_offer(client, namespace=namespace, capacity_map=capacity_map, read_classes=read_classes)
        except (KubeError, QuantityError) as error:
            _log.warning("cannot read what the provider offers: %s", error)
        else:
            if offer != last:
                last = offer
                yield offer
        await asyncio.sleep(POLL_SECONDS)


async def read_offer(client: Client, *, namespace: str, capacity_map: str | None, read_classes: ReadClasses) -> Offer:
    """What is offered now. Raises `KubeError`, and `QuantityError` for a ConfigMap with amounts that are none."""
    classes = await client.list(RUNTIME_CLASSES)
    return read_classes(classes.items, await _read_capacity(client, namespace, capacity_map))


async def _read_capacity(client: Client, namespace: str, capacity_map: str | None) -> Amounts:
    if capacity_map is not None:
        found = await client.get(CONFIG_MAPS, capacity_map, namespace=namespace)
        return {name: Quantity.parse(text) for name, text in (found.get("data") or {}).items()}
    try:
        quotas = await client.list(RESOURCE_QUOTAS, namespace=namespace)
    except Forbidden:
        quotas = None
    capacity = smallest_quota(quotas.items if quotas else ())
    if len(capacity) == len(RESOURCES):
        return capacity
    nodes = await client.list(NODES)
    return {**sum_nodes(nodes.items), **capacity}


def smallest_quota(quotas: Iterable[Mapping[str, Any]]) -> dict[str, Quantity]:
    """The least that the quotas grant of each resource; leaves out what none of them limits."""
    least: dict[str, Quantity] = {}
    for quota in quotas:
        hard = (quota.get("spec") or {}).get("hard") or {}
        for name, keys in _QUOTA_NAMES.items():
            for key in keys:
                if key not in hard:
                    continue
                amount = Quantity.parse(hard[key])
                least[name] = min(amount, least.get(name, amount))
    return least


def sum_nodes(nodes: Iterable[Mapping[str, Any]]) -> dict[str, Quantity]:
    """What all machines that take pods have for them."""
    total = sum_allocatable(Snapshot(at="", nodes=tuple(nodes)))
    return {name: Quantity.parse(total[name]) for name in RESOURCES if name in total}
