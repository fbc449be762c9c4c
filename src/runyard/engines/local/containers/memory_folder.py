"""A folder of the place in memory (tmpfs), for everything about containers that may hold secrets."""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

LONGEST_MEMORY_PATH = 44
"""Characters of the folder's path: podman takes no run root of more than 50, and it has one below this."""
LARGEST_MOUNTS_BYTES = 1 << 20
"""How much of /proc/self/mountinfo is read."""
_UID_CHARACTERS = 12
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})


def ensure_memory_folder(place_uid: str, *, environ: Mapping[str, str]) -> Path | None:
    """Return the folder of this place in memory, made if it is absent; None if the machine has no tmpfs for it.

    It belongs to the user of this process, and nobody else can look into it.
    """
    mounts = _read_mounts()
    name = f"runyard-{os.geteuid()}-{place_uid[:_UID_CHARACTERS]}"
    for parent in _iter_parents(environ):
        folder = parent / name
        if is_in_memory(parent, mounts=mounts) and len(str(folder)) <= LONGEST_MEMORY_PATH and _ensure_private(folder):
            return folder
    return None


def is_in_memory(path: Path, *, mounts: Mapping[str, str] | None = None) -> bool:
    """Whether the file system at that path is a tmpfs."""
    known = _read_mounts() if mounts is None else mounts
    resolved = path.resolve()
    for folder in (resolved, *resolved.parents):
        if (kind := known.get(str(folder))) is not None:
            return kind in _IN_MEMORY
    return False


def _iter_parents(environ: Mapping[str, str]) -> Iterator[Path]:
    if os.geteuid() == 0:
        yield Path("/run")
    elif environ.get("XDG_RUNTIME_DIR", "").startswith("/"):
        yield Path(environ["XDG_RUNTIME_DIR"])
    yield Path("/dev/shm")  # noqa: S108 - the folder made in it is checked by `_ensure_private`


def _ensure_private(folder: Path) -> bool:
    """Make the folder, or check that it is ours: /dev/shm is writable for everybody, who may have made it before us."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == 0o700


def _read_mounts() -> dict[str, str]:
    """File system types by mount point; of mounts on top of each other the last one counts."""
    with Path("/proc/self/mountinfo").open("rb") as file:
        text = file.read(LARGEST_MOUNTS_BYTES).decode(errors="replace")
    mounts = {}
    for line in text.splitlines():
        fields, _, rest = line.partition(" - ")
        columns = fields.split(" ")
        if len(columns) > 4 and rest:
            mounts[columns[4].replace("\\040", " ")] = rest.split(" ", 1)[0]
    return mounts
