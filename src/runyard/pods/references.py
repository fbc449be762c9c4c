"""The ConfigMaps and Secrets that a pod refers to: in volumes, environments and `imagePullSecrets`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

ReferenceKind = Literal["ConfigMap", "Secret"]
_IN_SOURCES: tuple[tuple[str, ReferenceKind, str], ...] = (
    ("configMap", "ConfigMap", "name"),
    ("secret", "Secret", "name"),
)
_IN_VOLUMES: tuple[tuple[str, ReferenceKind, str], ...] = (
    ("configMap", "ConfigMap", "name"),
    ("secret", "Secret", "secretName"),
)
_IN_VALUES: tuple[tuple[str, ReferenceKind, str], ...] = (
    ("configMapKeyRef", "ConfigMap", "name"),
    ("secretKeyRef", "Secret", "name"),
)
_IN_ENVIRONMENTS: tuple[tuple[str, ReferenceKind, str], ...] = (
    ("configMapRef", "ConfigMap", "name"),
    ("secretRef", "Secret", "name"),
)
_Found = tuple[ReferenceKind, dict[str, Any], str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One place of a pod's spec that names a ConfigMap or a Secret."""

    kind: ReferenceKind
    name: str
    is_optional: bool
    """Whether the pod starts without it. An image pull secret always is."""
    holder: dict[str, Any]
    """The object inside the spec that has the name, under `field`: to write another one there."""
    field: str


def iter_references(spec: Mapping[str, Any]) -> Iterator[Reference]:
    """Every reference in a pod's spec, in its order, repetitions too. Leaves out what has no name."""
    for kind, holder, field, is_optional in _iter_found(spec):
        name = holder.get(field)
        if isinstance(name, str) and name:
            yield Reference(kind=kind, name=name, is_optional=is_optional, holder=holder, field=field)


def _iter_found(spec: Mapping[str, Any]) -> Iterator[_Found]:
    for volume in spec.get("volumes") or ():
        yield from _iter_named(volume, _IN_VOLUMES)
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield from _iter_named(source, _IN_SOURCES)
    for containers in ("initContainers", "containers"):
        for container in spec.get(containers) or ():
            for source in container.get("envFrom") or ():
                yield from _iter_named(source, _IN_ENVIRONMENTS)
            for variable in container.get("env") or ():
                yield from _iter_named(variable.get("valueFrom") or {}, _IN_VALUES)
    for secret in spec.get("imagePullSecrets") or ():
        yield "Secret", secret, "name", True


def _iter_named(place: Mapping[str, Any], fields: tuple[tuple[str, ReferenceKind, str], ...]) -> Iterator[_Found]:
    for field, kind, name in fields:
        if holder := place.get(field):
            yield kind, holder, name, holder.get("optional") is True
