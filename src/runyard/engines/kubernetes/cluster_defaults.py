"""What the cluster adds to pods and claims by itself: default classes, placement of RuntimeClasses, LimitRanges."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from runyard.app.engine import PlaceDefault
from runyard.app.lru_map import LruMap
from runyard.domain.effective_spec import EffectiveSpec
from runyard.engines.kubernetes.project_rules import ClusterDefaults
from runyard.kube import Client, Forbidden, Object, Resource
from runyard.kube.resources import LIMIT_RANGES, PRIORITY_CLASSES, RUNTIME_CLASSES, STORAGE_CLASSES

MOST_CLASSES = 1000
"""How many classes of a kind are read."""
DEFAULTS_SECONDS = 30.0
"""How long what was read is believed."""
MOST_NAMESPACES = 1000
"""How many namespaces are remembered."""
_NAMES = {"cpu": "cpu", "memory": "mem", "ephemeral-storage": "ephemeral-storage"}
"""Our names of resources by Kubernetes'."""
_DEFAULT_STORAGE = "storageclass.kubernetes.io/is-default-class"


async def read_cluster_defaults(client: Client) -> ClusterDefaults:
    """Read them. A kind of class that may not be listed counts as having no default."""
    priorities = await _list(client, PRIORITY_CLASSES)
    storages = await _list(client, STORAGE_CLASSES)
    runtimes = await _list(client, RUNTIME_CLASSES)
    selector: dict[str, set[str]] = {}
    tolerations: list[Mapping[str, Any]] = []
    for runtime in runtimes:
        scheduling = runtime.get("scheduling") or {}
        for key, value in (scheduling.get("nodeSelector") or {}).items():
            selector.setdefault(key, set()).add(value)
        tolerations += [item for item in scheduling.get("tolerations") or () if item not in tolerations]
    return ClusterDefaults(
        priority_class=_find_name(item for item in priorities if item.get("globalDefault")),
        storage_class=find_default_storage(storages),
        node_selector={key: tuple(sorted(values)) for key, values in sorted(selector.items())},
        tolerations=tuple(tolerations),
    )


def find_default_storage(classes: list[Object]) -> str | None:
    """The default StorageClass; of several the newest, as the apiserver chooses."""
    defaults = [item for item in classes if (item["metadata"].get("annotations") or {}).get(_DEFAULT_STORAGE) == "true"]
    defaults.sort(key=lambda item: str(item["metadata"].get("creationTimestamp", "")), reverse=True)
    return _find_name(iter(defaults))


def _find_name(items: Iterator[Object]) -> str | None:
    return next((str(item["metadata"]["name"]) for item in items), None)


async def _list(client: Client, resource: Resource, *, namespace: str | None = None) -> list[Object]:
    try:
        return (await client.list(resource, namespace=namespace)).items[:MOST_CLASSES]
    except Forbidden:
        return []


class DefaultsReader:
    """Says what the cluster would add to a run, from lists that are at most `DEFAULTS_SECONDS` old."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._classes: tuple[float, ClusterDefaults] | None = None
        self._ranges: LruMap[str, tuple[float, list[Object]]] = LruMap(most=MOST_NAMESPACES)

    async def list_defaults(self, spec: EffectiveSpec, *, namespace: str) -> list[PlaceDefault]:
        """The values that blanks of a run get. Raises `KubeError`."""
        now = time.monotonic()
        if self._classes is None or now - self._classes[0] > DEFAULTS_SECONDS:
            self._classes = (now, await read_cluster_defaults(self._client))
        held = self._ranges.find(namespace)
        if held is None or now - held[0] > DEFAULTS_SECONDS:
            held = (now, await _list(self._client, LIMIT_RANGES, namespace=namespace))
            self._ranges.put(namespace, held)
        return [*find_class_defaults(spec, self._classes[1]), *find_range_defaults(spec, held[1])]


def find_class_defaults(spec: EffectiveSpec, defaults: ClusterDefaults) -> Iterator[PlaceDefault]:
    """The default classes that a run without classes gets."""
    if spec.priority_class is None and defaults.priority_class is not None:
        source = f"PriorityClass {defaults.priority_class}"
        yield PlaceDefault(path=("priority_class",), value=defaults.priority_class, source=source)
    storage = defaults.storage_class
    if storage is None:
        return
    source = f"StorageClass {storage}"
    if spec.disk is not None and spec.disk.medium == "ephemeral" and spec.disk.storage_class is None:
        yield PlaceDefault(path=("resources", "disk", "storage_class"), value=storage, source=source)
    for volume in spec.volumes:
        is_new = volume.type == "ephemeral" or (volume.type == "persistent_volume_claim" and not volume.claim_name)
        if is_new and volume.storage_class is None:
            yield PlaceDefault(path=("volumes", volume.name, "storage_class"), value=storage, source=source)


def find_range_defaults(spec: EffectiveSpec, ranges: Sequence[Mapping[str, Any]]) -> Iterator[PlaceDefault]:
    """The requests and limits that LimitRanges give a container without them. Of several, the first decides."""
    seen: set[tuple[str, str]] = set()
    for item, limit in _iter_container_limits(ranges):
        for key, side in (("default", "limits"), ("defaultRequest", "requests")):
            for resource, amount in (limit.get(key) or {}).items():
                name = _NAMES.get(resource)
                if name is None or (name, side) in seen:
                    continue
                sides = spec.resources.get(name)
                if sides is None or getattr(sides, side) is None:
                    seen.add((name, side))
                    source = f"LimitRange {item['metadata']['name']}"
                    yield PlaceDefault(path=("resources", name, side), value=str(amount), source=source)


def _iter_container_limits(
    ranges: Iterable[Mapping[str, Any]],
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    for item in ranges:
        for limit in (item.get("spec") or {}).get("limits") or ():
            if limit.get("type") == "Container":
                yield item, limit
