"""Files of the place: read with a bound, replaced atomically, and removed without following links.

A hostile user may own some of the folders below the place: their links are never followed, and the size of a file is
never trusted. No fsync: after a power cut nothing of a run lives anyway, and a file that cannot be read means `lost`.
"""

import asyncio
import ctypes
import errno
import fcntl
import json
import os
import secrets
import stat
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

LARGEST_RECORD_BYTES = 1 << 20
"""How much of a JSON file of the place is read; a larger one is not ours."""
TEMPORARY = ".new-"
"""Begins the name of what is not complete yet."""
REMOVED = ".removed-"
"""Begins the name of what is being deleted."""
MOST_REMOVED_AT_ONCE = 10_000
"""How many entries of a folder are listed before they are removed; then the next ones."""
MOST_REMOVED_LEVELS = 500
"""How deep a removal goes; a folder that is deeper is moved up first."""
FIRST_LOCK_PAUSE_SECONDS = 0.002
LONGEST_LOCK_PAUSE_SECONDS = 0.05

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_RENAME_NOREPLACE = 1
_AT_FDCWD = -100
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS)


class Unreadable(ValueError):
    """A file is there and is no record of ours."""


def read_record(path: Path) -> dict[str, Any] | None:
    """A JSON object; None if the file is not there. Raises `Unreadable`."""
    content = read_bytes(path, most=LARGEST_RECORD_BYTES + 1)
    if content is None:
        return None
    try:
        found = json.loads(content) if len(content) <= LARGEST_RECORD_BYTES else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Unreadable(f"{path.name} is not a record of Runyard")
    return found


def read_bytes(path: Path, *, most: int) -> bytes | None:
    """The first bytes of a regular file; None if there is none."""
    descriptor = open_regular(path)
    if descriptor is None:
        return None
    try:
        return os.read(descriptor, most)
    finally:
        os.close(descriptor)


def open_regular(path: Path) -> int | None:
    """The descriptor of a regular file; None if there is none. Does not follow a link, nor wait for a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Replace the file atomically. Raises FileNotFoundError if its folder is gone."""
    write_bytes(path, json.dumps(record, separators=(",", ":")).encode())


def write_bytes(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace the file atomically. Raises FileNotFoundError if its folder is gone."""
    temporary = path.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        try:
            _write_all(descriptor, content)
        finally:
            os.close(descriptor)
        os.rename(temporary, path)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def rename_new(source: Path, target: Path) -> bool:
    """Rename, unless the target exists; returns whether it did. Not even an empty folder is replaced."""
    library = ctypes.CDLL(None, use_errno=True)
    names = (os.fsencode(source), os.fsencode(target))
    if hasattr(library, "renameat2"):
        if library.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_NOREPLACE) == 0:
            return True
        code = ctypes.get_errno()
        if code == errno.EEXIST:
            return False
        if code not in _UNSUPPORTED:
            raise OSError(code, os.strerror(code), str(target))
    if os.path.lexists(target):
        return False
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return False
        raise
    return True


@contextmanager
def open_folder(path: Path) -> Iterator[int]:
    """A folder as a descriptor; not through a link."""
    descriptor = os.open(path, _FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def move_folder(name: str, moved: str, *, from_folder: int, to_folder: int) -> None:
    """Move a folder into another one, also if its owner, who is our own user then, made it read-only."""
    try:
        os.rename(name, moved, src_dir_fd=from_folder, dst_dir_fd=to_folder)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=from_folder)
        os.rename(name, moved, src_dir_fd=from_folder, dst_dir_fd=to_folder)


def remove_tree(path: Path, *, is_over: Callable[[], bool] = lambda: False) -> None:
    """Remove a file or folder with everything in it; absent is fine. Blocks: call it in a thread.

    No link is followed. Few descriptors are open at a time, nothing recurses, and memory is bounded, whatever its owner
    made of it. A folder that was made unreadable is made readable first. Gives up when `is_over`.
    """
    with suppress(FileNotFoundError), closing(_Removal(path.parent)) as removal:
        removal.run(path.name, is_over)


class _Removal:
    """Walks down a tree, and removes its folders on the way up."""

    def __init__(self, parent: Path) -> None:
        self._here = os.open(parent, _FOLDER)
        self._top: int | None = None
        """The folder that is removed."""
        self._above: list[tuple[str, tuple[int, int]]] = []
        """The folders that the walk is in: their name, and the folder that they are in."""
        self._names: list[list[str]] = []
        """What is left in each of them, as far as it was listed."""

    def close(self) -> None:
        os.close(self._here)
        if self._top is not None:
            os.close(self._top)

    def run(self, name: str, is_over: Callable[[], bool]) -> None:
        self._names = [[name]]
        while self._names and not is_over():
            if self._names[-1]:
                self._remove(self._names[-1].pop())
            else:
                self._go_up()

    def _remove(self, name: str) -> None:
        if _unlink(name, folder=self._here):
            return
        if self._top is not None and len(self._above) > MOST_REMOVED_LEVELS:
            moved = f"{REMOVED}{secrets.token_hex(8)}"
            move_folder(name, moved, from_folder=self._here, to_folder=self._top)
        else:
            self._go_down(name)

    def _go_down(self, name: str) -> None:
        try:
            inner = os.open(name, _FOLDER, dir_fd=self._here)
        except PermissionError:
            os.chmod(name, 0o700, dir_fd=self._here)
            inner = os.open(name, _FOLDER, dir_fd=self._here)
        above = _identify(self._here)
        self._enter(inner)
        self._above.append((name, above))
        if self._top is None:
            self._top = os.dup(inner)
        os.fchmod(inner, 0o700)
        with os.scandir(inner) as entries:
            self._names.append([entry.name for entry in islice(entries, MOST_REMOVED_AT_ONCE)])

    def _go_up(self) -> None:
        self._names.pop()
        if not self._above:
            return
        name, expected = self._above.pop()
        self._enter(os.open("..", _FOLDER, dir_fd=self._here))
        if _identify(self._here) != expected:
            raise OSError(errno.EBUSY, "a folder was moved while it was being removed")
        try:
            os.rmdir(name, dir_fd=self._here)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            self._go_down(name)

    def _enter(self, folder: int) -> None:
        os.close(self._here)
        self._here = folder


def _identify(folder: int) -> tuple[int, int]:
    found = os.fstat(folder)
    return found.st_dev, found.st_ino


def _unlink(name: str, *, folder: int) -> bool:
    """Whether the entry is gone; False if it is a folder."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except (IsADirectoryError, PermissionError):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return False
        raise
    return True


@asynccontextmanager
async def lock_file(path: Path) -> AsyncIterator[bool]:
    """Hold the lock of a file (flock); yields False if the file is gone. Never blocks the event loop.

    Hold it for file operations only, without waiting for anything: every engine at the place may want it.
    """
    descriptor = await _lock(path)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


async def _lock(path: Path) -> int | None:
    pause = FIRST_LOCK_PAUSE_SECONDS
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_same_file(descriptor, path):
                return descriptor
        except BlockingIOError:
            pass
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_LOCK_PAUSE_SECONDS)


def _is_same_file(descriptor: int, path: Path) -> bool:
    """Whether the path still names the file that was opened: the folder may have been removed and made again."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return False
