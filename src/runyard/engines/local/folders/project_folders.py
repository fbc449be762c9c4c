"""The folder of a project: its user on this machine, its environments and its kept volumes.

project.json             whose it is, and the number of the project's user
environments/ cache/     written by the project's own user: no project can change what another one runs
volumes/                 `volume_folders.py`
"""

import hashlib
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runyard.engines.local.folders.place import PlaceFolder, is_file_name
from runyard.engines.local.folders.place_files import (
    REMOVED,
    TEMPORARY,
    Unreadable,
    lock_file,
    read_record,
    remove_tree,
    rename_new,
    write_record,
)
from runyard.engines.local.user_numbers import FIRST_USER, PLACES, USERS_PER_PLACE

PROJECT_FILE = "project.json"
_LOCK = ".lock"
_NUMBERS = ".numbers.json"


@dataclass(frozen=True, slots=True)
class ProjectFolder:
    """A project that was prepared at this place."""

    path: Path
    user: int | None
    """The number of its user and group; None where the server is not root, and runs are the server's own user."""

    @property
    def environments(self) -> Path:
        """Virtual environments, by content."""
        return self.path / "environments"

    @property
    def cache(self) -> Path:
        """What was downloaded for environments."""
        return self.path / "cache"

    @property
    def volumes(self) -> Path:
        """Kept volumes, by claim."""
        return self.path / "volumes"


def find_project_folder(place: PlaceFolder, project: str) -> ProjectFolder | None:
    """The folder of a project; None if it was not prepared, or if somebody else made it."""
    path = place.find_project_folder(project)
    found = None if path is None else _read_project(path)
    if path is None or found is None or found.get("place") != place.uid:
        return None
    user = found.get("user")
    return ProjectFolder(path, user if isinstance(user, int) and os.geteuid() == 0 else None)


async def ensure_project_folder(place: PlaceFolder, project: str) -> None:
    """Make it; does nothing if it is there, or if somebody else made one. Idempotent."""
    path = place.find_project_folder(project)
    if path is None:
        return
    found = find_project_folder(place, project)
    is_complete = found is not None and (found.user is not None or os.geteuid() != 0)
    if is_complete or (found is None and is_taken(path)):
        return
    lock = place.projects / _LOCK
    lock.touch(mode=0o600)
    async with lock_file(lock):
        user = _take_user(place) if os.geteuid() == 0 else None
        if found is not None:  # the server was not root when it was made
            write_record(path / PROJECT_FILE, {"place": place.uid, "project": project, "user": user})
            _prepare(path, user)
            return
        temporary = place.projects / f"{TEMPORARY}{secrets.token_hex(8)}"
        temporary.mkdir(mode=0o700)
        write_record(temporary / PROJECT_FILE, {"place": place.uid, "project": project, "user": user})
        _prepare(temporary, user)
        if not rename_new(temporary, path):
            remove_tree(temporary)


def is_taken(path: Path) -> bool:
    """Whether something has this name, be it a link that leads nowhere."""
    return os.path.lexists(path)


def _prepare(path: Path, user: int | None) -> None:
    for name in ("environments", "cache", "volumes"):
        folder = path / name
        folder.mkdir(mode=0o700, exist_ok=True)
        if user is not None and name != "volumes":
            os.chown(folder, user, user, follow_symlinks=False)


def _take_user(place: PlaceFolder) -> int:
    """The next number; under the lock. Numbers are not used again: a file may have outlived its project."""
    path = place.projects / _NUMBERS
    found = read_record(path) or {}
    number = int(found.get("next", 1))
    if number >= USERS_PER_PLACE:
        raise OSError(f"the place has no user left for another project: it had {USERS_PER_PLACE}")
    write_record(path, {"next": number + 1})
    digest = int.from_bytes(hashlib.sha256(place.uid.encode()).digest()[:8])
    return FIRST_USER + digest % PLACES * USERS_PER_PLACE + number


def move_project_away(place: PlaceFolder, project: str) -> Path | None:
    """Take a project's folder out of the place; returns what is to be removed, or None if there is nothing of ours."""
    found = find_project_folder(place, project)
    if found is None:
        return None
    removed = place.projects / f"{REMOVED}{secrets.token_hex(8)}"
    with suppress(FileNotFoundError):
        os.rename(found.path, removed)
        return removed
    return None


def list_projects(place: PlaceFolder) -> list[str]:
    """The names of all folders of projects, whoever made them."""
    return sorted(name for name in os.listdir(place.projects) if is_file_name(name))


def _read_project(path: Path) -> dict[str, object] | None:
    try:
        return read_record(path / PROJECT_FILE)
    except Unreadable:
        return None
