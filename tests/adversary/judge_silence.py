"""Complaints about silence: whatever users asked for must be in the objects or named by a warning.

A stronger layer of the user's own may replace a weaker one without a warning. An empty list or mapping asks nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.adversary.cases import Case, World
from tests.adversary.facts import SECRET_FILES, AdminInputs, Facts
from tests.adversary.judge_profile import SCALARS, is_applicable

Path = tuple[Any, ...]

_UNRENDERED = frozenset({"parameters", "inputs", "init_parameters", "source", "requirements", "python_version"})
"""Fields that no object holds; they are looked for in the answer."""
_VOLUME_TYPES = {
    "empty_dir": "emptyDir",
    "ephemeral": "ephemeral",
    "config_map": "configMap",
    "image": "image",
    "persistent_volume_claim": "persistentVolumeClaim",
    "shared_volume": "persistentVolumeClaim",
}


def iter_silence_complaints(
    facts: Facts, admin: AdminInputs, case: Case, world: World, *, warned: Sequence[Path], answer: Mapping[str, Any]
) -> Iterator[str]:
    asked: dict[Path, Any] = {}
    tolerations: list[Any] = []
    for layer in facts.asked.layers:
        tolerations += layer.get("tolerations", [])
        asked |= {path: value for name, field in layer.items() for path, value in _iter_asked(name, field)}
    for path, value in asked.items():
        if _is_warned(path, warned):
            continue
        if not is_applicable(path[0], case) or not _is_held(path, value, facts, admin, world, answer):
            yield f"silence: {path} {value!r} is not used and nobody says so"
    for toleration in tolerations:
        if toleration not in facts.pod.get("tolerations", []) and not any(
            path[:1] == ("tolerations",) for path in warned
        ):
            yield f"silence: toleration {toleration} is not used and nobody says so"


def _iter_asked(name: str, value: Any) -> Iterator[tuple[Path, Any]]:
    if name in ("node_selector", "envs"):
        yield from (((name, key), entry) for key, entry in value.items())
    elif name in ("volumes", "secrets"):
        yield from (((name, entry["name"]), entry) for entry in value)
    elif name == "resources":
        for key, sides in value.items():
            whole = {"gpu": "limits", "disk": "size"}.get(key)
            yield from (((name, key, whole or side), amount) for side, amount in sides.items())
    elif name != "tolerations" and value not in ([], {}, *([""] if name == "profile" else [])):
        yield (name,), value


def _is_held(path: Path, value: Any, facts: Facts, admin: AdminInputs, world: World, answer: Mapping[str, Any]) -> bool:
    match path:
        case ("resources", "gpu", _):
            amounts = [facts.limits[name] for name in admin.gpu_names if name in facts.limits]
            return amounts == [value] or (not amounts and bool(value.is_zero))
        case ("resources", "disk", _):
            disk = facts.find_disk()
            return disk is not None and bool(disk[0] == value)
        case ("resources", name, side):
            return bool(facts.side(name, side) == value)
        case ("node_selector", key):
            return bool(facts.pod.get("nodeSelector", {}).get(key) == value)
        case ("envs", name):
            return bool(facts.env.get(name, {}).get("value") == value)
        case ("volumes", name):
            return _is_volume_held(name, value, facts, world)
        case ("secrets", name):
            return _is_secret_held(name, value, facts)
        case ("service_name",):
            return len(facts.services) == 2
        case ("profile",):
            return bool(value == admin.profile_id)
        case (name,) if name in _UNRENDERED:
            return bool(answer.get(name) == value)
        case (name,):
            return bool(SCALARS[name](facts) == value)
    raise ValueError(f"{path} is no field")


def _is_volume_held(name: str, volume: Mapping[str, Any], facts: Facts, world: World) -> bool:
    rendered = facts.volumes.get(name, {})
    if volume["volume_type"] == "config_map" and "configMap" in rendered:
        config = facts.config_maps[rendered["configMap"]["name"]]
        if config["data"] != facts.find_config_files(volume, world):
            return False
    mounts = [mount["mountPath"] for mount in facts.mounts if mount["name"] == name]
    return _VOLUME_TYPES[volume["volume_type"]] in rendered and mounts == [_normalize(volume["mount_path"])]


def _normalize(path: str) -> str:
    """As the reader writes a mount path: without repeated and final slashes, and without `.` segments."""
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def _is_secret_held(name: str, use: Mapping[str, Any], facts: Facts) -> bool:
    path = use.get("mount_path")
    if path is None:
        return name in facts.iter_secret_variables()
    mounts = {mount["mountPath"]: mount for mount in facts.mounts if mount["name"] == SECRET_FILES}
    return bool(mounts.get(_normalize(path), {}).get("subPath") == name)


def _is_warned(path: Path, warned: Sequence[Path]) -> bool:
    return any(warning[: len(path)] == path or path[: len(warning)] == warning for warning in warned if warning)
