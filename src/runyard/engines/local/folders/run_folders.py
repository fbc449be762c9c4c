"""The anchor of a run: a folder, made whole under another name and then renamed, so there is exactly one.

anchor.json              whose it is; never changes
lock                     held by whoever changes `wish.json`
wish.json                what the Core wants of it, and which release is the newest
objects/*.json           the admitted objects, as they were admitted; never Secrets
releases/<number>/       one per start: `release.json`, `supervision/` (of `procs`), `work/` and `volumes/`
claims/<name>/           claims that end with the run
"""

import os
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from runyard.app.engine import Anchor
from runyard.domain.admission import AdmittedObject
from runyard.engines.local.folders.place import PlaceFolder
from runyard.engines.local.folders.place_files import (
    REMOVED,
    TEMPORARY,
    Unreadable,
    move_folder,
    open_folder,
    read_bytes,
    read_record,
    remove_tree,
    rename_new,
    write_bytes,
    write_record,
)
from runyard.procs import State, read_state

Record = TypeVar("Record", bound="AnchorRecord | WishRecord | ReleaseRecord")
Wish = Literal["hold", "run", "stop", "remove"]

ANCHOR_FILE = "anchor.json"
WISH_FILE = "wish.json"
LOCK_FILE = "lock"
MOST_LOOKED_AT = 100
"""How many releases of a run are looked at to know whether it ever ran."""
MOST_CLEARED_RELEASES = 1000
"""How many releases of a run are cleared when it is settled."""
MOST_OBJECTS = 100
"""How many objects of a run are described."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorRecord:
    """`anchor.json`."""

    place: str
    uid: str
    run_uid: str
    run_id: str
    project: str
    action: str
    name: str
    """Of its pods, without their number."""
    sequence: int
    """When it was made, in nanoseconds since 1970: runs that wait start in this order."""

    @property
    def anchor(self) -> Anchor:
        """As the port knows it."""
        return Anchor(run_uid=self.run_uid, run_id=self.run_id, project=self.project, action=self.action, uid=self.uid)


@dataclass(frozen=True, slots=True, kw_only=True)
class WishRecord:
    """`wish.json`."""

    generation: int
    wish: Wish = "hold"
    version: int = 1
    """Grows with each change, and with each release by the version of the last state of the one before."""
    release: int = 0
    """The number of the newest release; 0: none yet."""
    is_settled: bool = False
    expires_at: float | None = None
    """When the folder is to be removed, in seconds since 1970."""

    def change(self, **fields: Any) -> "WishRecord":
        """The next one."""
        return replace(self, **{"version": self.version + 1, **fields})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRecord:
    """`release.json`: what a release needs to be observed."""

    claims: tuple[str, ...] = ()
    """Kept volumes that it mounts."""
    demand: Mapping[str, Any]
    """What it takes from the machine, as `room` wrote it."""
    memory_limit_bytes: int | None = None
    is_container: bool = False
    """Whether podman or docker executes it."""
    environment: str | None = None
    """The key of the virtual environment that it executes in."""
    service: Mapping[str, Any] | None = None
    """`type`, `name` and `ports` of a service; `observations` adds where it is reached."""
    not_enforced: tuple[str, ...] = ()
    """What the machine does not do for it, in words."""


class RunFolder:
    """One folder of `runs/`. Its methods do small file operations; none waits."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock_path = path / LOCK_FILE
        self.wish_path = path / WISH_FILE

    def read_anchor(self) -> AnchorRecord | None:
        """None if there is no anchor. Raises `Unreadable` if something else is there."""
        found = read_record(self.path / ANCHOR_FILE)
        if found is None:
            if os.path.lexists(self.path):
                raise Unreadable("the folder of the run holds no anchor")
            return None
        return _load(AnchorRecord, found)

    def read_wish(self) -> WishRecord | None:
        """None if it is gone with its folder."""
        found = read_record(self.wish_path)
        return None if found is None else _load(WishRecord, found)

    def write_wish(self, wish: WishRecord) -> None:
        """Under the lock only."""
        write_record(self.wish_path, asdict(wish))

    def get_release_path(self, number: int) -> Path:
        """The folder of a release."""
        return self.path / "releases" / str(number)

    def get_supervision_path(self, number: int) -> Path:
        """The folder that `procs` supervises in."""
        return self.get_release_path(number) / "supervision"

    def read_release(self, number: int) -> ReleaseRecord | None:
        """What was written of a release."""
        found = read_record(self.get_release_path(number) / "release.json")
        return None if found is None else _load(ReleaseRecord, found)

    def create_release(self, number: int, record: ReleaseRecord) -> Path:
        """Make the folder of a release. A server that was killed before it noted the release left one: it goes."""
        path = self.get_release_path(number)
        remove_tree(path)
        path.mkdir(mode=0o700, parents=True)
        write_record(path / "release.json", asdict(record))
        return path

    def has_started(self, newest: int) -> bool:
        """Whether a supervisor of one of its releases ever began, as far as its last ones are looked at."""
        numbers = range(newest, max(0, newest - MOST_LOOKED_AT), -1)
        states = (read_state(self.get_supervision_path(number)) for number in numbers)
        return any(state is not None and has_begun(state) for state in states)

    def write_objects(self, objects: Iterable[AdmittedObject]) -> None:
        """Store objects as they were admitted, without Secrets."""
        for item in objects:
            if item.kind != "Secret":
                write_bytes(self.path / "objects" / f"{item.kind}.{item.name}.json".lower(), item.body)

    def read_objects(self, *, most_bytes: int) -> list[bytes]:
        """The stored objects, as many as are so small together."""
        found: list[bytes] = []
        room = most_bytes
        for name in sorted(_list_names(self.path / "objects"))[:MOST_OBJECTS]:
            content = read_bytes(self.path / "objects" / name, most=room + 1)
            if content is not None and len(content) <= room:
                found.append(content)
                room -= len(content)
        return found

    def move_work_away(self, newest: int) -> Path | None:
        """Take the working folders of releases that have ended out of the run; their logs and states stay.

        Returns what is to be removed, or None if there was nothing. Blocks for some milliseconds.
        """
        removed = self.path.with_name(f"{REMOVED}{secrets.token_hex(8)}")
        removed.mkdir(mode=0o700)
        for number in range(max(1, newest - MOST_CLEARED_RELEASES), newest + 1):
            with suppress(FileNotFoundError, NotADirectoryError):
                _move_work(self.get_release_path(number), removed, number)
        with suppress(OSError):
            removed.rmdir()
            return None
        return removed

    def move_away(self) -> Path | None:
        """Take the folder out of `runs/` at once; returns what is to be removed, or None if it was gone."""
        removed = self.path.with_name(f"{REMOVED}{secrets.token_hex(8)}")
        try:
            os.rename(self.path, removed)
        except FileNotFoundError:
            return None
        return removed


def _move_work(release: Path, removed: Path, number: int) -> None:
    with open_folder(release) as source, open_folder(removed) as target:
        for name in ("work", "tmp", "volumes", "termination"):
            with suppress(FileNotFoundError):
                move_folder(name, f"{number}-{name}", from_folder=source, to_folder=target)


def create_run_folder(
    place: PlaceFolder, record: AnchorRecord, wish: WishRecord, objects: Iterable[AdmittedObject]
) -> bool:
    """Make the anchor of a run, whole or not at all; returns False if something has its name."""
    temporary = place.runs / f"{TEMPORARY}{secrets.token_hex(8)}"
    made = RunFolder(temporary)
    for folder in (temporary, temporary / "objects", temporary / "releases", temporary / "claims"):
        folder.mkdir(mode=0o700)
    try:
        made.lock_path.touch(mode=0o600)
        write_record(temporary / ANCHOR_FILE, asdict(record))
        made.write_wish(wish)
        made.write_objects(objects)
        if rename_new(temporary, place.runs / record.run_uid):
            return True
    except BaseException:
        remove_tree(temporary)
        raise
    remove_tree(temporary)
    return False


def has_begun(state: State) -> bool:
    """Whether a supervisor began its work. One that was killed before it did has started nothing."""
    return state.supervisor_pid is not None or state.is_ended


def _list_names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _load(kind: type[Record], found: Mapping[str, Any]) -> Record:
    """A record of exactly these fields. Raises `Unreadable`: another program wrote it, or a newer release."""
    known = {item.name: found[item.name] for item in fields(kind) if item.name in found}
    values: Any = {name: tuple(value) if isinstance(value, list) else value for name, value in known.items()}
    try:
        record = kind(**values)
    except TypeError as error:
        raise Unreadable(f"not a record of Runyard: {error}") from None
    is_valid = not isinstance(record, WishRecord) or _is_wish(record)
    if not is_valid or (isinstance(record, AnchorRecord) and not _is_anchor(record)):
        raise Unreadable("not a record of Runyard")
    return record


def _is_anchor(record: AnchorRecord) -> bool:
    texts = (getattr(record, item.name) for item in fields(record) if item.name != "sequence")
    return type(record.sequence) is int and all(isinstance(text, str) for text in texts)


def _is_wish(record: WishRecord) -> bool:
    numbers = (record.generation, record.version, record.release)
    return record.wish in get_args(Wish) and all(type(number) is int and number >= 0 for number in numbers)
