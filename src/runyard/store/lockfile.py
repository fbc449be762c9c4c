"""Allows one process per SQLite database, by a lock on the database file itself and one on a file beside it.

The file beside it exists before the database does, and names the process. It follows symbolic links. A hard link has
another directory, so the database file (its inode) is locked, too.
"""

import errno
import fcntl
import os
import sqlite3
import struct
from pathlib import Path

from runyard.store.errors import StoreError, StoreLocked, StoreUnavailable

_OLDEST_SQLITE = (3, 38, 0)  # RETURNING, and the JSON functions by default
_LOCKED_BYTE = 1 << 62
"""Far behind the bytes that SQLite locks, at 1 GiB, and behind the end of any database."""


class ProcessLock:
    """Held until `release` or the end of the process; the kernel releases it even after a crash."""

    def __init__(self, database: Path) -> None:
        self._database = database
        resolved = database.resolve()
        self._path = resolved.with_name(f"{resolved.name}.lock")
        self._descriptors: list[int] = []

    def acquire(self) -> None:
        """Raises `StoreLocked`, which names the process that holds it, and `StoreUnavailable` for a bad directory."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreUnavailable(f"the database {self._database} cannot be used: {error}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise StoreLocked(_describe_holder(self._database, holder)) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptors.append(descriptor)

    def acquire_file(self) -> None:
        """Lock the database file itself; creates it if missing, readable by its owner only. After `acquire`."""
        try:
            # It contains password hashes and encrypted values: no access for others, whatever the umask is.
            descriptor = os.open(self._database, os.O_RDWR | os.O_CREAT, 0o600)
            self._descriptors.append(descriptor)
            _lock_byte(descriptor)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES) and os.access(self._database, os.R_OK | os.W_OK):
                raise StoreLocked(_describe_holder(self._database, "")) from None
            raise StoreUnavailable(f"the database {self._database} cannot be used: {error}") from error

    def release(self) -> None:
        """Release. The file stays: removing it would let two processes lock two files of the same name."""
        while self._descriptors:
            os.close(self._descriptors.pop())


def take_file(database: Path) -> ProcessLock:
    """Lock the database file. Creates it if missing, readable by its owner only."""
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise StoreError(f"SQLite {sqlite3.sqlite_version} is too old: 3.38 or newer is needed, or PostgreSQL")
    lock = ProcessLock(database)
    lock.acquire()
    try:
        lock.acquire_file()
    except BaseException:
        lock.release()
        raise
    return lock


def _lock_byte(descriptor: int) -> None:
    """Lock one byte by an open file description lock (`man 2 fcntl`); raises `OSError` with EAGAIN or EACCES.

    Unlike a POSIX lock it belongs to this descriptor, so it survives that SQLite closes one of the same file. And it
    cannot collide with SQLite's own locks, as a lock of the whole file would on some systems.
    """
    if hasattr(fcntl, "F_OFD_SETLK"):
        fcntl.fcntl(
            descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, _LOCKED_BYTE, 1, 0)
        )


def _describe_holder(database: Path, holder: str) -> str:
    who = f"process {holder}" if holder.isdigit() else "another process"
    if holder == str(os.getpid()):
        who = f"this process ({holder}) already"
    return (
        f"the database {database} is in use by {who}; SQLite serves one process: stop that one, take another data "
        "directory, or use PostgreSQL for several"
    )
