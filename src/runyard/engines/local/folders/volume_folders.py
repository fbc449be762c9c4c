"""Kept volumes: one folder per claim, with the id of the volume that it belongs to and its data.

volumes/<claim>/volume.json      the volume's id, and whether it is being removed
volumes/<claim>/data/            what runs mount
"""

import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

from runyard.app.engine import EngineRefusal, KeptVolume, VolumeState
from runyard.domain.reasons import Reason
from runyard.engines.local.folders.place import PlaceFolder, is_file_name
from runyard.engines.local.folders.place_files import (
    REMOVED,
    TEMPORARY,
    Unreadable,
    read_record,
    remove_tree,
    rename_new,
    write_record,
)
from runyard.engines.local.folders.project_folders import ProjectFolder, list_projects

VOLUME_FILE = "volume.json"
STORAGE_CLASS = "local"
MOST_LISTED_VOLUMES = 10_000
"""How many folders among the volumes of a place are listed that are no volumes of it."""
_NOT_LIMITED = "the size of a volume is not enforced on this machine"

Mounts = Mapping[tuple[str, str], tuple[str, ...]]
"""Uids of runs, by the project and claim that they have mounted."""


def find_volume(place: PlaceFolder, *, project: str, claim: str, mounts: Mounts) -> VolumeState | None:
    """The volume of a claim, whoever made it; None if there is none."""
    folder = place.find_project_folder(project)
    if folder is None or not is_file_name(claim):
        return None
    path = folder / "volumes" / claim
    if not path.is_dir() or path.is_symlink():
        return None
    found = _read_volume(path)
    is_ours = found.get("place") == place.uid
    volume_id, size = found.get("volume_id"), found.get("size")
    return VolumeState(
        project=project,
        claim=claim,
        volume_id=volume_id if is_ours and isinstance(volume_id, str) else None,
        phase="removing" if is_ours and found.get("is_removing") else "bound",
        size=size if is_ours and isinstance(size, str) else None,
        storage_class=STORAGE_CLASS,
        mounted_by=mounts.get((project, claim), ()),
        message=_NOT_LIMITED,
    )


def create_volume(place: PlaceFolder, project: ProjectFolder, volume: KeptVolume) -> None:
    """Make the volume of a claim; raises `EngineRefusal` if the claim is another's. Idempotent."""
    if not is_file_name(volume.claim):
        raise EngineRefusal(Reason.VOLUME_TAKEN, "no folder can have the name of this claim")
    path = project.volumes / volume.claim
    temporary = project.volumes / f"{TEMPORARY}{secrets.token_hex(8)}"
    if not os.path.lexists(path):
        temporary.mkdir(mode=0o700)
        record = {"place": place.uid, "volume_id": volume.volume_id, "size": volume.size, "is_removing": False}
        write_record(temporary / VOLUME_FILE, record)
        data = temporary / "data"
        data.mkdir()
        # Only runs of the project can reach it, through their mounts; they may have different users.
        data.chmod(0o777)
        if project.user is not None:
            os.chown(data, project.user, project.user)
        if not rename_new(temporary, path):
            remove_tree(temporary)
    found = find_volume(place, project=project.path.name, claim=volume.claim, mounts={})
    if found is None or found.volume_id != volume.volume_id:
        message = f"claim {volume.claim} belongs to another volume, or Runyard did not create it"
        raise EngineRefusal(Reason.VOLUME_TAKEN, message)


def mark_removing(project: ProjectFolder, claim: str) -> None:
    """Note that the volume goes as soon as no run has it mounted; no other run may mount it."""
    path = project.volumes / claim
    found = _read_volume(path)
    if not found.get("is_removing"):
        write_record(path / VOLUME_FILE, {**found, "is_removing": True})


def move_volume_away(project: ProjectFolder, claim: str) -> Path | None:
    """Take it out of the project; returns what is to be removed."""
    removed = project.volumes / f"{REMOVED}{secrets.token_hex(8)}"
    try:
        os.rename(project.volumes / claim, removed)
    except FileNotFoundError:
        return None
    return removed


def list_volumes(place: PlaceFolder, mounts: Mounts) -> list[VolumeState]:
    """The volumes of all projects, and at most `MOST_LISTED_VOLUMES` strangers. Blocks: call it in a thread."""
    found: list[VolumeState] = []
    strangers = 0
    for project, claim in _iter_claims(place):
        state = find_volume(place, project=project, claim=claim, mounts=mounts)
        if state is None:
            continue
        strangers += state.volume_id is None
        if state.volume_id is not None or strangers <= MOST_LISTED_VOLUMES:
            found.append(state)
    return found


def _iter_claims(place: PlaceFolder) -> Iterator[tuple[str, str]]:
    for project in list_projects(place):
        try:
            claims = os.listdir(place.projects / project / "volumes")
        except (FileNotFoundError, NotADirectoryError):
            continue
        yield from ((project, claim) for claim in sorted(claims) if is_file_name(claim))


def _read_volume(path: Path) -> dict[str, object]:
    try:
        return read_record(path / VOLUME_FILE) or {}
    except Unreadable:
        return {}
