"""A run's objects, sorted. Everything here has passed `known.py`, so that its form is certain."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from runyard.domain.admission.object_shapes import WORKLOADS
from runyard.spec.problems import Path

SCRATCH_VOLUME = "runyard-scratch"
SECRETS_VOLUME = "runyard-secrets"
_SOURCES = ("emptyDir", "ephemeral", "persistentVolumeClaim", "configMap", "secret", "image")


@dataclass(frozen=True, slots=True)
class Placed:
    """A part of an object, and where it stands."""

    path: Path
    content: Mapping[str, Any]

    def open(self, *keys: str | int) -> "Placed":
        """A part that is there."""
        part: Any = self.content
        for key in keys:
            part = part[key]
        return Placed((*self.path, *keys), part)

    def iter_parts(self, key: str) -> Iterator["Placed"]:
        """The parts of a list, if it is there."""
        for index, part in enumerate(self.content.get(key, ())):
            yield Placed((*self.path, key, index), part)

    def find(self, *keys: str) -> Any:
        """A value, or None."""
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
    part: Placed


@dataclass(frozen=True, slots=True)
class Bundle:
    """The objects that are sent together."""

    objects: tuple[Placed, ...]

    def of(self, *kinds: str) -> list[Placed]:
        """The objects of these kinds."""
        return [item for item in self.objects if item.content["kind"] in kinds]

    def list_names(self, kind: str) -> frozenset[str]:
        """The names of the objects of a kind."""
        return frozenset(item.content["metadata"]["name"] for item in self.of(kind))

    @property
    def workload(self) -> Placed | None:
        """The Job or Deployment; None where only what it owns is sent."""
        return next(iter(self.of(*WORKLOADS)), None)

    @property
    def pod(self) -> Placed | None:
        """The spec of its pods."""
        return None if self.workload is None else self.workload.open("spec", "template", "spec")

    @property
    def container(self) -> Placed | None:
        """The one container."""
        return None if self.pod is None else self.pod.open("containers", 0)

    def iter_sources(self) -> Iterator[Source]:
        """The pod's volumes, the platform's own included."""
        if self.pod is not None:
            for volume in self.pod.iter_parts("volumes"):
                kind = next(name for name in _SOURCES if name in volume.content)
                yield Source(volume.content["name"], kind, volume.open(kind))

    def iter_metadata(self) -> Iterator[Placed]:
        """Every metadata: of the objects, of the pod template, of the claims within it."""
        for item in self.objects:
            yield item.open("metadata")
        if self.workload is not None:
            yield self.workload.open("spec", "template", "metadata")
        for source in self.iter_sources():
            if source.kind == "ephemeral":
                yield source.part.open("volumeClaimTemplate", "metadata")


def make_bundle(objects: Iterable[Mapping[str, Any]]) -> Bundle:
    """The objects with their places."""
    return Bundle(tuple(Placed(("objects", index), item) for index, item in enumerate(objects)))
