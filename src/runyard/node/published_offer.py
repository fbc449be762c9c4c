"""The offer as the cluster last saw it: read back from the Node and its RuntimeClasses.

An agent that cannot read its offer after a restart keeps the node alive with it. It takes no new pods then: what a
RuntimeClass does not show, such as the provider's own class, is not known.
"""

from runyard.kube import Client, NotFound
from runyard.kube.resources import NODES, RUNTIME_CLASSES
from runyard.node.offer import CLASS_LABEL, Offer
from runyard.node.offer_file import offer_from_runtime_classes
from runyard.node.runtime_classes import MOST_CLASSES
from runyard.spec.kubernetes.quantity import Quantity, QuantityError


async def find_published_offer(client: Client, *, node: str) -> Offer | None:
    """None if there is no such node, or it never had a capacity. Raises `KubeError`."""
    try:
        found = await client.get(NODES, node)
    except NotFound:
        return None
    try:
        texts = (found.get("status") or {}).get("capacity") or {}
        capacity = {name: Quantity.parse(text) for name, text in texts.items()}
    except QuantityError:
        return None
    if not capacity:
        return None
    classes = (await client.list(RUNTIME_CLASSES, label_selector=f"{CLASS_LABEL}={node}")).items
    offer, _ = offer_from_runtime_classes(classes[:MOST_CLASSES], capacity)
    return offer
