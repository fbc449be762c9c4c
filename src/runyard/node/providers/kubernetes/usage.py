"""What pods at a Kubernetes provider use, from its metrics API, where it has one."""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from runyard.kube import Client, NotFound, NotServed
from runyard.kube.resources import POD_METRICS
from runyard.node.providers.kubernetes.streams import provider_errors
from runyard.node.providers.provider import ContainerUsage, PodUsage
from runyard.spec.kubernetes.quantity import Quantity

_SECONDS = 10.0

logger = logging.getLogger(__name__)


async def read_usage(
    client: Client, *, namespace: str, remote_names: Callable[[], Mapping[str, str]]
) -> list[PodUsage]:
    """The figures of all pods that the provider has some of. `remote_names`: the name at the provider by uid.

    A cluster without a metrics API has none. Figures that cannot be read are left out, and the others kept.
    """
    with provider_errors("*"):
        try:
            listing = await client.list(POD_METRICS, namespace=namespace, deadline_seconds=_SECONDS)
        except (NotFound, NotServed):
            return []
    by_name = {item.get("metadata", {}).get("name"): item for item in listing.items}
    found = []
    for uid, name in remote_names().items():
        item = by_name.get(name)
        usage = usage_from_metrics(uid, item) if item is not None else None
        if usage is not None:
            found.append(usage)
    return found


def usage_from_metrics(uid: str, metrics: Mapping[str, Any]) -> PodUsage | None:
    """One PodMetrics as a provider's figures; None if it cannot be read."""
    try:
        containers: Sequence[Mapping[str, Any]] = metrics["containers"]
        return PodUsage(
            uid=uid,
            at=datetime.fromisoformat(metrics["timestamp"]),
            containers=[
                ContainerUsage(
                    name=container["name"],
                    cpu_cores=float(Quantity.parse(container["usage"]["cpu"]).exact),
                    memory_bytes=int(Quantity.parse(container["usage"]["memory"]).exact),
                )
                for container in containers
            ],
        )
    except (KeyError, TypeError, ValueError) as error:
        logger.debug("the figures of pod %s cannot be read: %s", uid, error)
        return None
