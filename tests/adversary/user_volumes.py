"""Draws volumes and secrets as users and profiles write them."""

from typing import Any

from tests.adversary import words
from tests.adversary.draws import Draws
from tests.adversary.placements import spell_camel

_TYPES = ("persistent_volume_claim", "empty_dir", "ephemeral", "config_map", "image", "shared_volume")
_ODD_TYPES: tuple[Any, ...] = ("host_path", "hostPath", "secret", "nfs", "pvc", "Empty_Dir", "projected", None, 5, [])


def draw_volume(draws: Draws) -> dict[str, Any]:
    """A legal volume."""
    kind = draws.pick_of(_TYPES) if draws.chance(0.7) else draws.pick_of(_TYPES[:3])
    volume = {
        "volume_type": kind,
        "name": draws.pick_of(words.VOLUME_NAMES),
        "mount_path": draws.pick_of(words.MOUNT_PATHS),
        "spec": draw_volume_spec(draws, kind),
    }
    if kind == "empty_dir" and draws.chance(0.3):
        volume |= {"name": "shm", "mount_path": "/dev/shm"}
    return _respell(draws, volume)


def draw_volume_spec(draws: Draws, kind: str) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if kind in ("persistent_volume_claim", "ephemeral"):
        if draws.chance(0.7):
            spec["size"] = draws.pick_of(words.SIZES)
        if draws.chance(0.4):
            spec["storage_class"] = draws.pick_of(words.STORAGE_CLASSES)
    if kind == "persistent_volume_claim" and draws.chance(0.3):
        spec["lifetime"] = draws.pick("run", "keep", "7d", 3600)
    if kind == "empty_dir":
        if draws.chance():
            spec[draws.pick("size_limit", "size")] = draws.pick_of(words.SIZES)
        if draws.chance(0.3):
            spec["medium"] = draws.pick("Memory", "")
    if kind == "config_map":
        spec |= draws.pick({"data": {"a.yaml": "a: 1\n", "b": 2}}, {"name": draws.pick_of(words.CONFIG_MAP_NAMES[:5])})
    if kind == "image":
        spec["image"] = draws.pick_of(words.IMAGES)
    if kind == "shared_volume" and draws.chance():
        spec["claim_name"] = draws.pick("models", "kept")
    if draws.chance(0.2):
        spec["sub_path"] = draws.pick_of(words.SUB_PATHS)
    return spec


def draw_sly_volume(draws: Draws, *, is_odd: bool) -> Any:
    """A volume that refers to another project's objects, or is mounted at a forbidden path."""
    volume = draw_volume(draws)
    kind = volume.get("volume_type") or volume["volumeType"]
    spec = volume["spec"]
    trick = draws.number(0, 6 if is_odd else 4)
    if trick == 0:
        volume["mount_path"] = draws.pick_of(words.ODD_PATHS)
        volume.pop("mountPath", None)
    elif trick == 1 and kind in ("persistent_volume_claim", "shared_volume"):
        name = draws.pick_of(words.ODD_CLAIMS) if is_odd else draws.pick("speech-claim", "legacy", "run-other.data")
        volume["spec"] = {draws.pick("claim_name", "claimName"): name}
    elif trick == 2 and kind == "config_map":
        names = (*words.CONFIG_MAP_NAMES, *(words.ODD_CONFIG_MAPS if is_odd else words.ODD_CONFIG_MAPS[:5]))
        volume["spec"] = {"name": draws.pick_of(names)}
    elif trick == 3 and kind == "image":
        volume["spec"] = {"image": draws.pick_of(words.SLY_IMAGES)}
    elif trick == 4:
        spec["sub_path"] = draws.pick_of(words.ODD_SUB_PATHS if is_odd else words.SUB_PATHS)
    elif trick == 5:
        volume[draws.pick("volume_type", "name", "spec", *words.STRANGE_KEYS[:9])] = draws.pick_of(words.JUNK)
    elif trick == 6:
        return draws.pick(
            {"volume_type": draws.pick_of(_ODD_TYPES), "name": "x", "mount_path": "/x"},
            {"volume_type": "empty_dir", "name": "runyard-secrets", "mount_path": "/x"},
            {"volume_type": "empty_dir", "name": "runyard-scratch", "mount_path": "/x"},
            {"volume_type": "empty_dir", "name": "x", "mount_path": "/x", "hostPath": {"path": "/"}},
            {**volume, "spec": {"size": draws.pick_of(words.ODD_AMOUNTS), "sizeLimit": "1Gi", "size_limit": "2Gi"}},
            draws.pick_of(words.JUNK),
        )
    return volume


def draw_secret(draws: Draws) -> Any:
    name = draws.pick_of(words.PLAIN_SECRETS)
    return draws.pick(name, {"name": name}, {"name": name, "mount_path": f"/secrets/{draws.pick('a', 'b')}"})


def _respell(draws: Draws, volume: dict[str, Any]) -> dict[str, Any]:
    if draws.chance(0.7):
        return volume
    spec = {spell_camel(key): value for key, value in volume["spec"].items()}
    return {**{spell_camel(key): value for key, value in volume.items()}, "spec": spec}
