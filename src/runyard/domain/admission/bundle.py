"""A run's objects, with access by kind and path. They have passed `object_shapes`, so their shape is known."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from runyard.domain.admission.object_shapes import WORKLOADS
from runyard.spec.launcher import LAUNCHER_NAME
from runyard.spec.problems import Path

SCRATCH_VOLUME = "runyard-scratch"
SECRETS_VOLUME = "runyard-secrets"
PLATFORM_VOLUMES = frozenset({SCRATCH_VOLUME, SECRETS_VOLUME, LAUNCHER_NAME})
"""Volumes that the platform adds; rules for users' volumes do not apply to them."""
_SOURCES = ("emptyDir", "ephemeral", "persistentVolumeClaim", "configMap", "secret", "image")


@dataclass(frozen=True, slots=True)
class ObjectPart:
    """A part of an object, and its path."""

    path: Path
    content: Mapping[str, Any]

    def open(self, *keys: str | int) -> "ObjectPart":
        """The part under these keys; raises KeyError where it is missing."""
        part: Any = self.content
        for key in keys:
            part = part[key]
        return ObjectPart((*self.path, *keys), part)

    def iter_parts(self, key: str) -> Iterator["ObjectPart"]:
        """The items of a list; none where the list is missing."""
        for index, part in enumerate(self.content.get(key, ())):
            yield ObjectPart((*self.path, key, index), part)

    def find(self, *keys: str) -> Any:
        """The value under these keys, or None."""
        part: Any = self.content
        for key in keys:
            if key not in part:
                return None
            part = part[key]
        return part


@dataclass(frozen=True, slots=True)
class Source:
    """A volume of the pod: its name, the kind of its source, and the source."""

    name: str
    kind: str
    part: ObjectPart


@dataclass(frozen=True)
class Bundle:
    """The objects that are sent together."""

    objects: tuple[ObjectPart, ...]

    def of(self, *kinds: str) -> list[ObjectPart]:
        """The objects of these kinds."""
        return [item for item in self.objects if item.content["kind"] in kinds]

    def list_names(self, kind: str) -> frozenset[str]:
        """The names of the objects of a kind."""
        return frozenset(item.content["metadata"]["name"] for item in self.of(kind))

    @cached_property
    def workload(self) -> ObjectPart | None:
        """The Job or Deployment; None where only its dependents are sent."""
        return next(iter(self.of(*WORKLOADS)), None)

    @cached_property
    def pod(self) -> ObjectPart | None:
        """The pod spec of the workload."""
        return None if self.workload is None else self.workload.open("spec", "template", "spec")

    @cached_property
    def container(self) -> ObjectPart | None:
        """The pod's only container."""
        return None if self.pod is None else self.pod.open("containers", 0)

    def iter_sources(self) -> Iterator[Source]:
        """The pod's volumes, including the platform's own."""
        if self.pod is not None:
            for volume in self.pod.iter_parts("volumes"):
                kind = next(name for name in _SOURCES if name in volume.content)
                yield Source(volume.content["name"], kind, volume.open(kind))

    def iter_metadata(self) -> Iterator[ObjectPart]:
        """The metadata of every object, of the pod template and of its claim templates."""
        for item in self.objects:
            yield item.open("metadata")
        if self.workload is not None:
            yield self.workload.open("spec", "template", "metadata")
        for source in self.iter_sources():
            if source.kind == "ephemeral":
                yield source.part.open("volumeClaimTemplate", "metadata")


def make_bundle(objects: Iterable[Mapping[str, Any]]) -> Bundle:
    """Wrap the objects with their paths."""
    return Bundle(tuple(ObjectPart(("objects", index), item) for index, item in enumerate(objects)))
