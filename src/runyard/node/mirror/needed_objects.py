"""The ConfigMaps and Secrets that pods need: read when a pod starts, and watched for changes.

Contents are read live when they are used and never kept. A watch for each namespace with such pods keeps names and
versions only; a change of a version makes the pods due that refer to it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from runyard.kube import Client, NotFound, Reflector, Resource, View
from runyard.kube.resources import CONFIG_MAPS, SECRETS
from runyard.node.mirror.translation import Needed, Untranslatable
from runyard.node.providers.provider import Object
from runyard.pods.references import ReferenceKind

MOST_BYTES = 4 * 2**20
"""How much the ConfigMaps and Secrets of one pod may have together."""
MOST_WATCHED_NAMESPACES = 50
"""How many namespaces are watched; pods of others are looked after every `POLL_SECONDS`."""
POLL_SECONDS = 60.0

_RESOURCES: dict[ReferenceKind, Resource] = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS}
_log = logging.getLogger(__name__)


class MissingObject(Exception):
    """A ConfigMap or Secret that the pod cannot start without does not exist."""

    def __init__(self, needed: Needed) -> None:
        super().__init__(f'{needed.kind.lower()} "{needed.name}" not found')
        self.needed = needed


@dataclass(slots=True)
class Contents:
    """What was read for one pod."""

    config_maps: dict[str, Object] = field(default_factory=dict)
    secrets: dict[str, Object] = field(default_factory=dict)
    absent: list[Needed] = field(default_factory=list)
    """Optional ones that do not exist."""


async def read_contents(client: Client, namespace: str, needed: Iterable[Needed]) -> Contents:
    """Read all that a pod needs. Raises `MissingObject`, `Untranslatable` and `KubeError`."""
    contents, size = Contents(), 0
    for item in needed:
        try:
            found = await client.get(_RESOURCES[item.kind], item.name, namespace=namespace)
        except NotFound:
            if not item.is_optional:
                raise MissingObject(item) from None
            contents.absent.append(item)
            continue
        size += _size(found)
        if size > MOST_BYTES:
            message = f"the pod's ConfigMaps and Secrets have more than {MOST_BYTES >> 20} MiB together"
            raise Untranslatable("TooMuchContent", message)
        if item.kind == "ConfigMap":
            contents.config_maps[item.name] = {name: found.get(name) or {} for name in ("data", "binaryData")}
        else:
            contents.secrets[item.name] = {"type": found.get("type", "Opaque"), "data": found.get("data") or {}}
    return contents


def _size(found: Object) -> int:
    fields = (found.get("data") or {}, found.get("binaryData") or {})
    return sum(len(key) + len(value) for values in fields for key, value in values.items())


class _Watch:
    """Both kinds in one namespace, for the pods that need some of them."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.pods: set[str] = set()
        self.reflectors: dict[ReferenceKind, Reflector[View]] = {
            kind: Reflector(client, resource, view=View, namespace=namespace) for kind, resource in _RESOURCES.items()
        }
        self.tasks: list[asyncio.Task[None]] = []


class NeededObjects:
    """Which ConfigMaps and Secrets are watched, and for whom."""

    def __init__(self, client: Client, *, on_change: Callable[[str], None]) -> None:
        self._client = client
        self._on_change = on_change
        self._needed: dict[str, tuple[str, frozenset[tuple[ReferenceKind, str]]]] = {}
        self._watches: dict[str, _Watch] = {}

    def follow(self, uid: str, namespace: str, needed: Iterable[Needed]) -> None:
        """Call `on_change(uid)` whenever one of these changes. Idempotent."""
        names = frozenset((item.kind, item.name) for item in needed)
        if not names:
            return
        self._needed[uid] = (namespace, names)
        watch = self._watches.get(namespace)
        if watch is None:
            if len(self._watches) >= MOST_WATCHED_NAMESPACES:
                return
            watch = self._watches[namespace] = _Watch(self._client, namespace)
            watch.tasks = [
                asyncio.create_task(self._run(watch, namespace, kind), name=f"watch of {kind}s in {namespace}")
                for kind in watch.reflectors
            ]
        watch.pods.add(uid)

    def forget(self, uid: str) -> None:
        """The pod is gone; a namespace without pods is no longer watched."""
        found = self._needed.pop(uid, None)
        watch = self._watches.get(found[0]) if found else None
        if found is None or watch is None:
            return
        watch.pods.discard(uid)
        if not watch.pods:
            del self._watches[found[0]]
            for task in watch.tasks:
                task.cancel()

    def versions(self, uid: str) -> tuple[str, ...] | None:
        """The versions of all that a pod needs, absent ones empty; None where they are not known, or not watched."""
        found = self._needed.get(uid)
        if found is None:
            return ()
        namespace, names = found
        watch = self._watches.get(namespace)
        if watch is None or uid not in watch.pods or not all(r.has_synced for r in watch.reflectors.values()):
            return None
        return tuple(watch.reflectors[kind].store.version((namespace, name)) or "" for kind, name in sorted(names))

    def is_polled(self, uid: str) -> bool:
        """Whether nobody watches what this pod needs."""
        found = self._needed.get(uid)
        watch = self._watches.get(found[0]) if found else None
        return found is not None and (watch is None or uid not in watch.pods)

    async def close(self) -> None:
        """End all watches."""
        tasks = [task for watch in self._watches.values() for task in watch.tasks]
        self._watches.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, watch: _Watch, namespace: str, kind: ReferenceKind) -> None:
        async with watch.reflectors[kind] as reflector:
            with reflector.subscribe(max_pending=None) as subscription:
                await reflector.wait_synced()
                # An absent object has no key: all pods look once now that this is known.
                self._tell(watch, namespace, None)
                async for keys in subscription:
                    self._tell(watch, namespace, {(kind, key.name) for key in keys})

    def _tell(self, watch: _Watch, namespace: str, changed: set[tuple[ReferenceKind, str]] | None) -> None:
        for uid in watch.pods:
            found = self._needed.get(uid)
            if found and found[0] == namespace and (changed is None or not found[1].isdisjoint(changed)):
                self._on_change(uid)
