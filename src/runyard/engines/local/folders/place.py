"""The place of a local engine: a folder of the data directory, and where everything is in it.

place.json               the uid of the place, made once
listeners/               sockets of the engines that are open
launcher-<hash>.pyz      the launcher
projects/<project>/      `project_folders.py`
runs/<run uid>/          `run_folders.py`
"""

import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from runyard.engines.local.folders.place_files import REMOVED, TEMPORARY, Unreadable, read_record, write_record

ENGINE = "local"
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


class PlaceFolder:
    """The folder of a place. Made by `open_place`."""

    def __init__(self, root: Path, *, uid: str) -> None:
        self.root = root
        self.uid = uid
        self.runs = root / "runs"
        self.projects = root / "projects"
        self.listeners = root / "listeners"

    def find_run_folder(self, run_uid: str) -> Path | None:
        """Where the anchor of a run is; None if no run can have this uid."""
        return self.runs / run_uid if is_file_name(run_uid) else None

    def find_project_folder(self, project: str) -> Path | None:
        """Where the files of a project are; None if no project can have this name."""
        return self.projects / project if is_file_name(project) else None


def open_place(root: Path) -> PlaceFolder:
    """The place in that folder, made if it is not there. Raises OSError and `Unreadable`."""
    root = root.absolute()
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in ("runs", "projects", "listeners"):
        (root / name).mkdir(mode=0o700, exist_ok=True)
    path = root / "place.json"
    found = read_record(path)
    if found is None:
        # Several processes may do this at once: the link decides which uid it is.
        temporary = root / f"{TEMPORARY}{secrets.token_hex(8)}"
        write_record(temporary, {"uid": uuid4().hex})
        with suppress(FileExistsError):
            os.link(temporary, path)
        os.unlink(temporary)
        found = read_record(path)
    uid = None if found is None else found.get("uid")
    if not isinstance(uid, str) or not is_file_name(uid):
        raise Unreadable(f"{path} does not hold the uid of a place")
    return PlaceFolder(root, uid=uid)


def is_file_name(name: str) -> bool:
    """Whether a name is harmless as the name of a file: no path, not hidden."""
    return _FILE_NAME.fullmatch(name) is not None


def is_leftover(name: str) -> bool:
    """Whether the name is of something that was not completed, or not removed completely."""
    return name.startswith((TEMPORARY, REMOVED))
