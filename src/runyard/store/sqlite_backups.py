"""Backups of SQLite with its online backup API."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from runyard.store.epochs import STATEMENTS, make_epoch
from runyard.store.errors import BackupFailed


def backup_sqlite(database: Path, path: Path) -> None:
    """Copy a consistent snapshot. The copy is checked before it gets its name."""
    with _make_file(path) as part:
        _copy(database, part)


def restore_sqlite(backup: Path, database: Path) -> None:
    """Copy, start a new epoch, and only then give it its final name."""
    with _make_file(database) as part:
        _copy(backup, part)
        with closing(sqlite3.connect(part, isolation_level=None)) as copy:
            copy.execute("BEGIN IMMEDIATE")
            for statement in STATEMENTS:
                copy.execute(statement, {"epoch": make_epoch()} if ":epoch" in statement else {})
            copy.execute("COMMIT")


def check_vacant(database: Path) -> None:
    """Raises `BackupFailed` if files of another database would be overwritten or mixed with the new one."""
    names = (database.name, *(f"{database.name}-{suffix}" for suffix in ("wal", "shm", "journal")))
    taken = [name for name in names if database.with_name(name).exists()]
    if taken:
        raise BackupFailed(f"{database.parent} holds {', '.join(taken)}: move it away first; it was not changed")


@contextmanager
def _make_file(path: Path) -> Iterator[Path]:
    """A temporary file that replaces the target on success (atomic and durable)."""
    part = path.with_name(f"{path.name}.part")
    try:
        os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600))
        yield part
        _sync(part)
        part.rename(path)
        _sync(path.parent)
    except (OSError, sqlite3.Error) as error:
        raise BackupFailed(f"{path} was not made: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    with (
        closing(sqlite3.connect(f"file:{quote(str(source.absolute()))}?mode=ro", uri=True, timeout=30)) as original,
        closing(sqlite3.connect(target)) as copy,
    ):
        original.backup(copy)
        # A single file, without a WAL beside it.
        copy.execute("PRAGMA journal_mode = DELETE")
        [(verdict,), *_] = copy.execute("PRAGMA integrity_check").fetchall()
    if verdict != "ok":
        raise BackupFailed(f"{source} is damaged: {verdict}")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
