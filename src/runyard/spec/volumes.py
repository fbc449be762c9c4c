"""`volumes`: the volumes of a run and their mount paths."""

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from runyard.spec.config_maps import DATA_SCHEMA, MOST_INLINE_BYTES, parse_config_map_reference, read_config_data
from runyard.spec.duration import DurationError, parse_duration
from runyard.spec.images import ImageError, find_image, parse_image
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.names import check_dns_label, check_dns_subdomain, suggest_dns_label
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Refused, find_nearest
from runyard.spec.readers import (
    Findings,
    expect_keys,
    expect_list,
    expect_mapping,
    expect_option,
    expect_text,
    fold_keys,
    refuse,
)
from runyard.spec.resources import read_amount

VolumeType = Literal["persistent_volume_claim", "config_map", "empty_dir", "ephemeral", "shared_volume", "image"]
VOLUME_TYPES: tuple[VolumeType, ...] = (
    "persistent_volume_claim",
    "config_map",
    "empty_dir",
    "ephemeral",
    "shared_volume",
    "image",
)
RESERVED_PREFIX = "runyard-"
"""Prefix of the names of the platform's own volumes."""
SCRATCH_PATH = "/shared"
"""Mount path of `resources.disk`."""
SHARED_MEMORY_PATH = "/dev/shm"  # noqa: S108 - a mount path in the user's container, not a file of ours

_FORBIDDEN_TREES = (
    "/proc",
    "/sys",
    "/dev",
    "/etc",
    "/var/run/secrets/kubernetes.io",
    "/run/secrets/kubernetes.io",
)
VOLUME_OPTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "persistent_volume_claim": ("size", "storage_class", "claim_name", "sub_path", "lifetime"),
        "config_map": ("data", "name", "sub_path"),
        "empty_dir": ("size_limit", "medium", "sub_path"),
        "ephemeral": ("size", "storage_class", "sub_path"),
        "shared_volume": ("claim_name", "size", "sub_path"),
        "image": ("image", "sub_path"),
    }
)
"""The keys of `spec`, by type of volume."""

VOLUMES_SCHEMA: dict[str, Any] = {
    "type": "array",
    "description": "Volumes to create or mount.",
    "items": {
        "type": "object",
        "required": ["volume_type", "name", "mount_path"],
        "additionalProperties": False,
        "properties": {
            "volume_type": {"enum": list(VOLUME_TYPES), "description": "what is mounted"},
            "name": {
                "type": "string",
                "description": "name of the volume: lower-case letters, digits and dashes",
                "maxLength": 63,
                "examples": ["my-pvc"],
            },
            "mount_path": {
                "type": "string",
                "description": "absolute path in the container",
                "examples": ["/data"],
            },
            "spec": {
                "type": "object",
                "description": "Options of the volume type; camelCase or snake_case.",
                "examples": [{"size": "10Gi"}],
                "properties": {
                    "size": {"type": ["string", "number"], "description": "size of the volume", "examples": ["10Gi"]},
                    "storage_class": {
                        "type": "string",
                        "description": "StorageClass that provides the volume",
                        "examples": ["fast"],
                    },
                    "claim_name": {
                        "type": "string",
                        "description": "existing claim of the project",
                        "examples": ["datasets"],
                    },
                    "lifetime": {
                        "type": ["string", "number"],
                        "description": "how long a claim is kept: run, keep, or a duration such as 7d",
                        "examples": ["keep"],
                    },
                    "size_limit": {
                        "type": ["string", "number"],
                        "description": "largest size of an empty_dir",
                        "examples": ["2Gi"],
                    },
                    "medium": {"enum": ["", "Memory"], "description": "Memory: files of an empty_dir are in memory"},
                    "sub_path": {
                        "type": "string",
                        "description": "folder of the volume that is mounted, instead of all of it",
                        "examples": ["training"],
                    },
                    "data": DATA_SCHEMA,
                    "name": {
                        "type": "string",
                        "description": "config map of the project: NAME for its newest version, or NAME:VERSION",
                        "examples": ["settings"],
                    },
                    "image": {
                        "type": "string",
                        "description": "image whose content is mounted",
                        "examples": ["registry.example.org/data:1"],
                    },
                },
            },
        },
    },
    "examples": [
        [{"volume_type": "persistent_volume_claim", "name": "my-pvc", "mount_path": "/data", "spec": {"size": "10Gi"}}]
    ],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """One volume; fields that its type does not have are None."""

    name: str
    type: VolumeType
    mount_path: str
    size: Quantity | None = None
    """Size of a claim or an ephemeral volume; size limit of an empty_dir."""
    storage_class: str | None = None
    medium: str | None = None
    claim_name: str | None = None
    sub_path: str | None = None
    lifetime: int | Literal["run", "keep"] | None = None
    """Lifetime of a claim: deleted with the run, kept, or deleted after so many seconds."""
    image: str | None = None
    config_map: str | None = None
    """The project's config map: a reference as it is written, the name alone once it is resolved."""
    config_map_version: str | None = None
    """The version that `config_map` was resolved to."""
    data: Mapping[str, str] | None = None
    """Files by name: as given, or of the config map once it is resolved."""


def read_volumes(given: Any) -> tuple[Volume, ...]:
    """The volumes; duplicate names and mount paths are refused."""
    findings = Findings()
    volumes: list[Volume] = []
    names: dict[str, int] = {}
    paths: dict[str, int] = {}
    for index, entry in enumerate(expect_list(given, of="volumes")):
        volume = findings.read(_read_volume, entry, index)
        if volume is None:
            continue
        volumes.append(volume)
        for seen, key, field, code in (
            (names, volume.name, "name", Code.VOLUMES_NAME_TWICE),
            (paths, volume.mount_path, "mount_path", Code.VOLUMES_MOUNT_PATH_TWICE),
        ):
            if key in seen:
                message = f"volumes[{seen[key]}] has the same {field}"
                findings.add(code, (index, field), message, value=key)
            seen.setdefault(key, index)
    findings.finish()
    return tuple(volumes)


def read_mount_path(given: Any) -> str:
    """A mount path, normalised: absolute, without `..`, outside of system directories."""
    path = expect_text(given, what="a mount path", most=1024)
    if not path.startswith("/"):
        raise refuse(Code.MOUNT_PATH_RELATIVE, "must be an absolute path", value=path, suggestion=_find_absolute(path))
    if ".." in path:
        raise refuse(Code.MOUNT_PATH_DOTS, "must not contain `..`", value=path)
    if ":" in path or "\\" in path:
        raise refuse(Code.MOUNT_PATH_CHARACTER, "must not contain `:` or a backslash", value=path)
    normal = "/" + posixpath.normpath(path).lstrip("/")
    if normal == "/":
        raise refuse(Code.MOUNT_PATH_SYSTEM, "nothing can be mounted at the root of the container", value=path)
    for tree in _FORBIDDEN_TREES:
        is_inside = normal == tree or normal.startswith(f"{tree}/") or f"{normal}/kubernetes.io" == tree
        if is_inside and normal != SHARED_MEMORY_PATH:
            raise refuse(
                Code.MOUNT_PATH_SYSTEM,
                f"nothing can be mounted at or below the system directory `{tree}`",
                value=path,
                allowed="any other path; /dev/shm for shared memory",
            )
    return normal


def _find_absolute(path: str) -> str | None:
    """The absolute form of a relative mount path, or None if it would be refused as well."""
    try:
        return read_mount_path(f"/{path.lstrip('./')}")
    except Refused:
        return None


def _read_volume(given: Any) -> Volume:
    findings = Findings()
    entry, spelling = fold_keys(expect_mapping(given, of="volume fields"), findings)
    expect_keys(entry, ("volume_type", "name", "mount_path", "spec"), findings, spelling=spelling)
    missing = [key for key in ("volume_type", "name", "mount_path") if entry.get(key) is None]
    for key in missing:
        findings.add(Code.FIELD_MISSING, (key,), f"a volume needs `{key}`")
    kind = (
        findings.read(_read_type, entry["volume_type"], spelling["volume_type"])
        if "volume_type" not in missing
        else None
    )
    name = findings.read(_read_name, entry["name"], "name") if "name" not in missing else None
    path = (
        findings.read(read_mount_path, entry["mount_path"], spelling["mount_path"])
        if "mount_path" not in missing
        else None
    )
    spec = entry["spec"] if entry.get("spec") is not None else {}
    options = findings.read(lambda spec: _read_spec(kind, spec), spec, "spec") if kind else None
    findings.finish()
    assert kind is not None  # noqa: S101 - otherwise `finish` raised
    return Volume(name=name or "", type=kind, mount_path=path or "", **(options or {}))


def _read_type(given: Any) -> VolumeType:
    if given in ("secret", "secrets"):
        raise refuse(
            Code.VOLUMES_TYPE,
            "a secret cannot be a volume; use `secrets`",
            value=given,
            suggestion="secrets: [{name: …, mount_path: …}]",
        )
    if given in ("pvc", "persistentVolumeClaim", "configMap", "emptyDir", "sharedVolume"):
        meant = find_nearest("persistent_volume_claim" if given == "pvc" else given, VOLUME_TYPES)
        raise refuse(
            Code.VOLUMES_TYPE,
            "unknown volume type",
            value=given,
            allowed=", ".join(VOLUME_TYPES),
            suggestion=meant,
        )
    known: Mapping[str, VolumeType] = {name: name for name in VOLUME_TYPES}
    return known[expect_option(given, what="volume type", options=VOLUME_TYPES)]


def _read_name(given: Any) -> str:
    name = expect_text(given, what="a volume's name", most=253)
    if error := check_dns_label(name):
        raise refuse(Code.VOLUMES_NAME, error, value=name, suggestion=suggest_dns_label(name))
    if name.startswith(RESERVED_PREFIX):
        raise refuse(Code.VOLUMES_NAME, f"names that begin with `{RESERVED_PREFIX}` are reserved", value=name)
    return name


def _read_spec(kind: VolumeType, given: Any) -> dict[str, Any]:
    findings = Findings()
    spec, spelling = fold_keys(expect_mapping(given, of=f"{kind} options"), findings)
    if kind == "empty_dir" and "size" in spec and "size_limit" not in spec:
        spec["size_limit"], spelling["size_limit"] = spec.pop("size"), spelling["size"]
    known = VOLUME_OPTIONS[kind]
    options: dict[str, Any] = {}
    for key, value in spec.items():
        if key not in known:
            findings.add(
                Code.FIELD_UNKNOWN,
                (spelling[key],),
                f"unknown field `{spelling[key]}` for volume type {kind}",
                allowed=", ".join(known),
                suggestion=find_nearest(key, known),
            )
        elif value is not None and value != "":
            target, reader = _READERS[key]
            options[target] = findings.read(reader, value, spelling[key])
    _check_spec(kind, options, spelling, findings)
    findings.finish()
    return options


def _check_spec(kind: VolumeType, options: dict[str, Any], spelling: Mapping[str, str], findings: Findings) -> None:
    if kind == "config_map" and ("data" in options) == ("config_map" in options):
        findings.add(Code.VOLUMES_CONFIG_MAP, (), "a config_map needs either `data` or `name`")
    if kind == "image" and "image" not in options:
        findings.add(Code.FIELD_MISSING, ("image",), "an image volume needs `image`")
    if kind == "persistent_volume_claim" and options.get("claim_name"):
        for key in ("size", "storage_class", "lifetime"):
            if options.get(key) is not None:
                message = f"`{key}` cannot be set for an existing claim (`claim_name`)"
                findings.add(Code.VOLUMES_EXISTING, (spelling[key],), message)


def _read_sub_path(given: Any) -> str:
    path = expect_text(given, what="a sub path", most=1024)
    if path.startswith("/") or ".." in path or "\\" in path:
        raise refuse(Code.VOLUMES_SUB_PATH, "must be a relative path without `..` or backslashes", value=path)
    return path


def _read_lifetime(given: Any) -> int | str:
    if given in ("run", "keep"):
        return str(given)
    try:
        return parse_duration(given)
    except (DurationError, TypeError) as error:
        allowed = "run, keep, or a duration such as 7d"
        raise refuse(Code.VOLUMES_LIFETIME, str(error), value=given, allowed=allowed) from None


def _read_medium(given: Any) -> str:
    return expect_option(given, what="medium", options=("Memory",))


def read_object_name(given: Any) -> str:
    """The name of a Kubernetes object, such as a claim, a class or a Secret."""
    name = expect_text(given, what="the name", most=253)
    if error := check_dns_subdomain(name):
        raise refuse(Code.NAME_INVALID, error, value=name)
    return name


def read_image(given: Any) -> str:
    """The name of a container image, as written; refused where no container runtime could read it."""
    image = expect_text(given, what="an image", most=512)
    try:
        parse_image(image)
    except ImageError as error:
        lower = image.lower()
        meant = lower if lower != image and find_image(lower) is not None else None
        allowed = "[host[:port]/]path[:tag][@digest]"
        raise refuse(Code.IMAGE_INVALID, str(error), value=image, allowed=allowed, suggestion=meant) from None
    return image


def _read_config_map(given: Any) -> str:
    """A reference to a config map, as it is written. The project is known only when the run is resolved."""
    parse_config_map_reference(given)
    return str(given)


def _read_data(given: Any) -> Mapping[str, str]:
    return read_config_data(given, most_bytes=MOST_INLINE_BYTES)


_READERS: Mapping[str, tuple[str, Callable[[Any], Any]]] = MappingProxyType(
    {
        "size": ("size", read_amount),
        "size_limit": ("size", read_amount),
        "storage_class": ("storage_class", read_object_name),
        "claim_name": ("claim_name", read_object_name),
        "name": ("config_map", _read_config_map),
        "sub_path": ("sub_path", _read_sub_path),
        "lifetime": ("lifetime", _read_lifetime),
        "medium": ("medium", _read_medium),
        "image": ("image", read_image),
        "data": ("data", _read_data),
    }
)
