"""Events about this node's pods at the provider."""

import re
from collections.abc import AsyncIterator, Callable

from runyard.kube import Client, Reflector
from runyard.kube.resources import EVENTS
from runyard.kube.store import StoreLimits
from runyard.node.providers.kubernetes.views import EventView
from runyard.node.providers.provider import RemoteEvent

MOST_EVENTS = 5_000
MOST_EVENTS_OF_A_POD = 50
LONGEST_MESSAGE = 1024
_CONTAINER = re.compile(r"spec\.(?:initContainers|containers)\{(.+)\}")
_LOCAL_REASONS = frozenset({"Scheduled"})
"""The local cluster has its own: the pod was bound to the node."""


async def follow_events(
    client: Client, *, namespace: str, find_pod: Callable[[str], str | None]
) -> AsyncIterator[RemoteEvent]:
    """Events as they come, and first those that the provider still has. `find_pod`: the uid for a pod's name."""
    limits: StoreLimits[EventView] = StoreLimits(
        holds=lambda event: event.about.name.startswith("pod-") and event.reason not in _LOCAL_REASONS,
        index="pod",
        most_per_value=MOST_EVENTS_OF_A_POD,
        most=MOST_EVENTS,
    )
    reflector = Reflector(
        client,
        EVENTS,
        view=EventView,
        namespace=namespace,
        field_selector="involvedObject.kind=Pod",
        indexes={"pod": lambda event: [event.about.name]},
        limits=limits,
    )
    async with reflector:
        with reflector.subscribe(max_pending=None) as subscription:
            async for keys in subscription:
                for key in keys:
                    event = reflector.store.find(key)
                    uid = None if event is None else find_pod(event.about.name)
                    if event is not None and uid is not None:
                        yield _render(event, uid)


def _render(event: EventView, uid: str) -> RemoteEvent:
    at = event.event_at or event.last_at or event.first_at or ""
    last_at = (event.series.last_at if event.series else None) or event.last_at or at
    found = _CONTAINER.fullmatch(event.about.field_path)
    return RemoteEvent(
        uid=uid,
        event_id=event.metadata.name,
        type="Warning" if event.type == "Warning" else "Normal",
        reason=event.reason[:128],
        message=event.message[:LONGEST_MESSAGE],
        count=(event.series.count if event.series else None) or event.count or 1,
        first_at=event.first_at or at,
        last_at=last_at,
        container=found[1] if found else None,
    )
