"""Allows one process per SQLite database, by a lock on a file beside it."""

import fcntl
import os
import sqlite3
from pathlib import Path

from runyard.store.errors import StoreError, StoreLocked, StoreUnavailable

_OLDEST_SQLITE = (3, 38, 0)  # RETURNING, and the JSON functions by default


class ProcessLock:
    """Held until `release` or the end of the process; the kernel releases it even after a crash."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._path = database.with_name(f"{database.name}.lock")
        self._descriptor: int | None = None

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
        self._descriptor = descriptor

    def release(self) -> None:
        """Release. The file stays: removing it would let two processes lock two files of the same name."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def take_file(database: Path) -> ProcessLock:
    """Lock the database file. Creates it if missing, readable by its owner only."""
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise StoreError(f"SQLite {sqlite3.sqlite_version} is too old: 3.38 or newer is needed, or PostgreSQL")
    lock = ProcessLock(database)
    lock.acquire()
    try:
        # It contains password hashes and encrypted values: no access for others, whatever the umask is.
        os.close(os.open(database, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        lock.release()
        raise StoreUnavailable(f"the database {database} cannot be used: {error}") from error
    return lock


def _describe_holder(database: Path, holder: str) -> str:
    who = f"process {holder}" if holder.isdigit() else "another process"
    if holder == str(os.getpid()):
        who = f"this process ({holder}) already"
    return (
        f"the database {database} is in use by {who}; SQLite serves one process: stop that one, or use PostgreSQL "
        "for several"
    )
