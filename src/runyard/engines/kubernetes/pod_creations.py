"""Pods that came and went while nobody watched, by the events in which controllers say what they created.

A Job's status does not count a pod that was evicted, so it does not tell of all of them. Whenever the pods were listed,
some may have come and gone before: then these events are read once, for all runs of a namespace. Kubernetes keeps them
for an hour, and summarises them from the eleventh pod of a Job in ten minutes on.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from runyard.engines.kubernetes.log_gaps import parse_time
from runyard.engines.kubernetes.pod_cache import PodCache
from runyard.kube import Client, NotFound, Object
from runyard.kube.resources import EVENTS, PODS

MOST_CREATIONS = 50_000
"""How many of these events of a namespace are read."""
MOST_CREATED_PODS = 100
"""How many created pods of one anchor are known, the newest."""
MOST_CREATION_NAMESPACES = 2000
"""For how many namespaces they are kept."""
MOST_CONFIRMED_PODS = 20_000
"""How many pods are remembered that were asked for and are gone."""
DEADLINE_SECONDS = 10.0
"""How long a request may take."""

_REASON = "SuccessfulCreate"
_CREATED = "Created pod: "


@dataclass(frozen=True, slots=True)
class CreatedPod:
    """A pod that a controller has created, by its own word."""

    name: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class _Creations:
    """Of one namespace, as read after the pods were listed so often."""

    pod_lists: int
    pods: Mapping[str, tuple[CreatedPod, ...]]
    """By the UID of a Job, or the name of a Deployment."""


class PodCreations:
    """Finds pods that nobody saw. Raises `KubeError`."""

    def __init__(self, client: Client, cache: PodCache) -> None:
        self._client = client
        self._cache = cache
        self._namespaces: OrderedDict[str, _Creations] = OrderedDict()
        self._gone: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._lock = asyncio.Lock()

    async def list_unseen(self, owner: str, *, namespace: str, known: Collection[str]) -> list[CreatedPod]:
        """The pods of an anchor whose names are not `known` and that are gone, in the order of their creation.

        `owner` is the UID of a Job, or the name of a Deployment. The anchor itself may be gone.
        """
        creations = await self._find(namespace)
        pods = creations.pods.get(owner, ())
        return [pod for pod in pods if pod.name not in known and await self._is_gone(namespace, pod.name)]

    async def _find(self, namespace: str) -> _Creations:
        async with self._lock:
            pod_lists = self._cache.pod_lists
            found = self._namespaces.get(namespace)
            if found is None or found.pod_lists != pod_lists:
                # Nothing was missed while nothing was listed.
                pods = await self._read(namespace) if pod_lists else {}
                found = self._namespaces[namespace] = _Creations(pod_lists, pods)
                while len(self._namespaces) > MOST_CREATION_NAMESPACES:
                    self._namespaces.popitem(last=False)
            return found

    async def _read(self, namespace: str) -> dict[str, tuple[CreatedPod, ...]]:
        pods: dict[str, tuple[CreatedPod, ...]] = {}
        count = 0
        async for page in self._client.iter_pages(
            EVENTS, namespace=namespace, field_selector=f"reason={_REASON}", deadline_seconds=DEADLINE_SECONDS
        ):
            for event in sorted(page.items, key=_read_time):
                owner, message = _find_owner(event), str(event.get("message") or "")
                if owner is not None and message.startswith(_CREATED):
                    pod = CreatedPod(message.removeprefix(_CREATED), parse_time(_read_time(event)))
                    pods[owner] = (*pods.get(owner, ()), pod)[-MOST_CREATED_PODS:]
            count += len(page.items)
            if count >= MOST_CREATIONS:
                break
        return pods

    async def _is_gone(self, namespace: str, name: str) -> bool:
        """Asks for the pod: the cache may lag behind the event of its creation."""
        if (namespace, name) in self._gone:
            return True
        try:
            await self._client.get(PODS, name, namespace=namespace, deadline_seconds=DEADLINE_SECONDS)
        except NotFound:
            self._gone[namespace, name] = None
            while len(self._gone) > MOST_CONFIRMED_PODS:
                self._gone.popitem(last=False)
            return True
        return False


def _find_owner(event: Object) -> str | None:
    """The UID of the Job, or the name of the Deployment, whose pod was created."""
    involved = event.get("involvedObject") or {}
    if involved.get("kind") == "Job":
        return str(involved.get("uid"))
    return str(involved.get("name")).rpartition("-")[0] if involved.get("kind") == "ReplicaSet" else None


def _read_time(event: Object) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")
