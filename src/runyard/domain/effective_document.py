"""The effective spec as it is stored with a run: plain JSON with a schema version, and its reader.

A run lives longer than a release, so a stored document may be older than this code. `read_effective` upgrades it, one
version at a time. Whoever changes what `write_effective` writes raises `SCHEMA_VERSION`, adds an upgrade, and adds
samples to tests/data/effective.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from runyard.domain.effective_spec import SECONDS, Disk, EffectiveSpec
from runyard.spec.environment import SecretUse
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.resources import LIMITS, REQUESTS, Sides
from runyard.spec.services import ServicePort
from runyard.spec.volumes import Volume

SCHEMA_VERSION = 3
VERSION_KEY = "schema_version"
"""Documents of version 1 have no such key; their content is that of version 2."""

Document = dict[str, Any]


class UnknownSchema(Exception):
    """The document was written by a newer release, or by nobody: it cannot be read."""


def write_effective(spec: EffectiveSpec) -> Document:
    """The document to store; `read_effective` gives the same spec back."""
    return {VERSION_KEY: SCHEMA_VERSION, **spec.to_dict()}


def read_effective(document: Mapping[str, Any]) -> EffectiveSpec:
    """The spec of a stored document of any version so far; raises `UnknownSchema`."""
    try:
        return _read_content(_upgrade(document))
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # not what any release wrote
        raise UnknownSchema(f"the stored effective spec cannot be read: {error!s}") from error


def upgrade_provenance(leaves: Iterable[Document], document: Mapping[str, Any] | None) -> tuple[Document, ...]:
    """The stored provenance of a document, with the paths of the current version."""
    if document is None or document.get(VERSION_KEY, 1) not in (1, 2):
        return tuple(leaves)
    return tuple(
        {**leaf, "path": _SIDE_AT_THE_END.sub(r"\g<0>s", leaf["path"])}
        if leaf["path"].startswith("resources")
        else leaf
        for leaf in leaves
    )


def _read_content(content: Document) -> EffectiveSpec:
    values = {name: _READERS[name](content.pop(name)) for name in _READERS.keys() & content.keys()}
    resources = dict(content.pop("resources", {}))
    gpu, disk = resources.pop("gpu", None), resources.pop("disk", None)
    if gpu is not None:
        values["gpu"], values["gpu_resource"] = Quantity.parse(gpu["limits"]).value, gpu.get("resource")
    if disk is not None:
        values["disk"] = Disk(**{**disk, "size": Quantity.parse(disk["size"])})
    if resources:
        values["resources"] = MappingProxyType({name: _read_sides(sides) for name, sides in resources.items()})
    for name in SECONDS:
        values[f"{name}_seconds"] = content.pop(name, None)
    return EffectiveSpec(**values, **content)


def _upgrade(document: Mapping[str, Any]) -> Document:
    content = dict(document)
    version = content.pop(VERSION_KEY, 1)
    if version not in range(1, SCHEMA_VERSION + 1):
        raise UnknownSchema(
            f"the stored effective spec has schema version {version}, and this release reads up to {SCHEMA_VERSION}"
        )
    for step in range(version, SCHEMA_VERSION):
        content = _UPGRADES[step](content)
    return content


def _add_version(content: Document) -> Document:
    """1 to 2: only the version itself was added."""
    return content


def _rename_sides(content: Document) -> Document:
    """2 to 3: `request` and `limit` became `requests` and `limits`."""
    resources = content.get("resources", {})
    renamed = {
        name: {_RENAMED_SIDES.get(key, key): value for key, value in amounts.items()}
        for name, amounts in resources.items()
    }
    return {**content, "resources": renamed} if renamed else content


_SIDE_AT_THE_END = re.compile(r"(?<=\.)(?:request|limit)$")
_RENAMED_SIDES = {"request": REQUESTS, "limit": LIMITS}
_UPGRADES: Mapping[int, Callable[[Document], Document]] = MappingProxyType({1: _add_version, 2: _rename_sides})
"""By the version that a document has: what makes the next version of it."""


def _read_sides(sides: Mapping[str, str]) -> Sides:
    return Sides(**{side: Quantity.parse(amount) for side, amount in sides.items()})


def _read_volumes(volumes: list[Document]) -> tuple[Volume, ...]:
    return tuple(Volume(**(volume | _read_size(volume))) for volume in volumes)


def _read_size(volume: Document) -> Document:
    return {"size": Quantity.parse(volume["size"])} if "size" in volume else {}


def _read_secrets(uses: list[Document]) -> tuple[SecretUse, ...]:
    return tuple(SecretUse(**use) for use in uses)


def _read_ports(ports: list[Document]) -> tuple[ServicePort, ...]:
    return tuple(ServicePort(**port) for port in ports)


_READERS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "command": tuple,
        "args": tuple,
        "image_pull_secrets": tuple,
        "tolerations": tuple,
        "topology_spread": tuple,
        "host_aliases": tuple,
        "requirements": tuple,
        "volumes": _read_volumes,
        "secrets": _read_secrets,
        "service_ports": _read_ports,
    }
)
"""Fields that are not in the type as JSON has them."""
