"""ConfigMaps and Secrets as files of a pod's folder, and their updates."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from runyard.node.providers.local.environment import read_config_map, read_secret
from runyard.node.providers.provider import Object, ProviderRefused, Workload

_DEFAULT_MODE = 0o644
_TEMPORARY = ".runyard-new"


@dataclass(frozen=True, slots=True)
class VolumeFile:
    """One file of a volume."""

    content: bytes
    mode: int


def volume_contents(workload: Workload, volume: Object) -> dict[str, VolumeFile] | None:
    """The files of a volume by relative path; None: an emptyDir, whose content is the containers'. Pure."""
    if "emptyDir" in volume:
        return None
    if projected := volume.get("projected"):
        mode = projected.get("defaultMode", _DEFAULT_MODE)
        files: dict[str, VolumeFile] = {}
        for source in projected.get("sources") or []:
            for kind, reference in source.items():
                files |= _read_source(workload, kind, reference, name=reference["name"], mode=mode)
        return files
    if reference := volume.get("configMap"):
        mode = reference.get("defaultMode", _DEFAULT_MODE)
        return _read_source(workload, "configMap", reference, name=reference["name"], mode=mode)
    reference = volume.get("secret") or {}
    mode = reference.get("defaultMode", _DEFAULT_MODE)
    return _read_source(workload, "secret", reference, name=reference.get("secretName", ""), mode=mode)


def write_volume(folder: Path, files: Mapping[str, VolumeFile]) -> None:
    """Make the folder hold exactly these files. Each is replaced atomically, and only if it changed. Blocks."""
    folder.mkdir(parents=True, exist_ok=True)
    for path, file in files.items():
        _write_file(folder / path, file)
    for found in sorted(folder.rglob("*"), reverse=True):
        if found.is_file() and str(found.relative_to(folder)) not in files:
            found.unlink()


def _write_file(target: Path, file: VolumeFile) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_file() and target.read_bytes() == file.content:
        return
    temporary = target.with_name(target.name[:200] + _TEMPORARY)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(file.content)
    temporary.chmod(file.mode)
    temporary.replace(target)


def _read_source(workload: Workload, kind: str, reference: Object, *, name: str, mode: int) -> dict[str, VolumeFile]:
    found, read = (workload.secrets, read_secret) if kind == "secret" else (workload.config_maps, read_config_map)
    if name not in found:
        if reference.get("optional"):
            return {}
        raise ProviderRefused("CreateContainerConfigError", f"a volume refers to {kind} {name}, which does not exist")
    values = read(found[name])
    items = reference.get("items")
    if not items:
        return {_checked(key): VolumeFile(value, mode) for key, value in values.items()}
    files: dict[str, VolumeFile] = {}
    for item in items:
        if item["key"] in values:
            files[_checked(item["path"])] = VolumeFile(values[item["key"]], item.get("mode", mode))
        elif not reference.get("optional"):
            raise ProviderRefused("CreateContainerConfigError", f"{kind} {name} has no key {item['key']}")
    return files


def _checked(path: str) -> str:
    parts = PurePosixPath(path)
    if parts.is_absolute() or not parts.parts or ".." in parts.parts:
        raise ProviderRefused("CreateContainerConfigError", f"{path!r:.100} is not a path inside of a volume")
    return str(parts)
