"""The large view of a run, for people: its objects as they are now, and all that was said of them.

The watches hold warnings only. Here every event of the anchor and of its newest pods is asked for. No Secrets.
"""

import json
from collections.abc import Sequence

from runyard.app.engine import LARGEST_DESCRIPTION_BYTES
from runyard.app.model import Json
from runyard.kube import Client, Object
from runyard.kube.resources import CONFIG_MAPS, EVENTS, PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES
from runyard.manifests.metadata import RUN_UID_LABEL, to_label_value

MOST_DESCRIBED = 100
"""How many objects of one kind are shown, and how many events of one object."""
MOST_PODS_WITH_EVENTS = 5
"""Of how many pods the events are asked for, the newest ones: one request each."""


async def describe_run(client: Client, anchor: Object, *, run_uid: str) -> Json:
    """The anchor, its pods, Services, claims, ConfigMaps and events. Raises `KubeError`."""
    namespace = anchor["metadata"]["namespace"]
    budget = _Budget(LARGEST_DESCRIPTION_BYTES - 1024)
    described: Json = {"anchor": budget.keep([anchor])[:1]}
    for resource in (PODS, SERVICES, PERSISTENT_VOLUME_CLAIMS, CONFIG_MAPS):
        selector = f"{RUN_UID_LABEL}={to_label_value(run_uid)}"
        pages = client.iter_pages(resource, namespace=namespace, label_selector=selector, page_size=MOST_DESCRIBED)
        described[resource.plural] = budget.keep((await anext(pages)).items)
    pods = sorted(described[PODS.plural], key=lambda pod: str(pod["metadata"].get("creationTimestamp")))
    events: list[Object] = []
    for owner in (anchor, *pods[-MOST_PODS_WITH_EVENTS:]):
        selector = f"involvedObject.uid={owner['metadata']['uid']}"
        pages = client.iter_pages(EVENTS, namespace=namespace, field_selector=selector, page_size=MOST_DESCRIBED)
        events += (await anext(pages)).items
    described[EVENTS.plural] = budget.keep(sorted(events, key=_find_time), most=len(events))
    return described


def _find_time(event: Object) -> str:
    """When it was seen last, by whichever of the two APIs it came."""
    times = (event.get("lastTimestamp"), event.get("eventTime"), event["metadata"].get("creationTimestamp"))
    return next((at for at in times if isinstance(at, str)), "")


class _Budget:
    """Keeps objects while there is room for their JSON."""

    def __init__(self, room_bytes: int) -> None:
        self._room_bytes = room_bytes

    def keep(self, objects: Sequence[Object], *, most: int = MOST_DESCRIBED) -> list[Object]:
        kept = []
        for item in objects[:most]:
            size_bytes = len(json.dumps(item)) + 2
            if size_bytes > self._room_bytes:
                break
            self._room_bytes -= size_bytes
            kept.append(item)
        return kept
