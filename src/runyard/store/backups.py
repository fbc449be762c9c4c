"""Back up a database while the server runs, and restore it."""

import asyncio
from pathlib import Path

from runyard.store.errors import BackupFailed
from runyard.store.lockfile import ProcessLock
from runyard.store.postgresql_backups import backup_postgresql, restore_postgresql
from runyard.store.schema import read_schema
from runyard.store.sqlite_backups import backup_sqlite, check_vacant, restore_sqlite
from runyard.store.urls import DatabaseUrl, SqliteUrl, parse_url

_MAGIC = {b"SQLite format 3\0": "SQLite", b"PGDMP": "PostgreSQL"}
"""The first bytes of a file (magic number), by engine."""
_TARGETS = {"SQLite": "sqlite:////var/lib/runyard/runyard.db", "PostgreSQL": "postgresql://runyard@db/runyard"}


async def backup(url: str, path: Path) -> None:
    """Write a consistent snapshot of the database to a new file; writers are not blocked.

    Only the owner can read the file. It does not contain the keys of secrets, which are not in the database.
    """
    place = parse_url(url)
    _check_absent(path)
    status = await read_schema(place)
    if status.state in ("empty", "foreign"):
        raise BackupFailed(f"{place.shown} is not a Runyard database: nothing to back up")
    if isinstance(place, SqliteUrl):
        await asyncio.to_thread(backup_sqlite, place.path, path)
    else:
        await backup_postgresql(place, path)


async def restore(path: Path, url: str) -> None:
    """Restore a backup into a new database; refuses to touch an existing one.

    The new database starts a new epoch, with the sweeper off and without leases. A backup of an older release needs
    `upgrade` afterwards.
    """
    place = parse_url(url)
    origin = _find_backup(path)
    _check_engine(path, place)
    if not isinstance(place, SqliteUrl):
        await restore_postgresql(origin.path, place)
        return
    lock = ProcessLock(place.path)
    lock.acquire()
    try:
        check_vacant(place.path)
        status = await read_schema(origin)
        status.check_upgradable()
        if status.state == "empty":
            raise BackupFailed(f"{path} is empty, so it is not a backup of Runyard")
        await asyncio.to_thread(restore_sqlite, origin.path, place.path)
    finally:
        lock.release()


def _check_absent(path: Path) -> None:
    if path.exists():
        raise BackupFailed(f"{path} already exists; it was not changed")


def _check_engine(path: Path, target: DatabaseUrl) -> None:
    """Raises `BackupFailed` if the file is a backup of the other engine. Unknown files are left to the engine."""
    with path.open("rb") as file:
        start = file.read(max(map(len, _MAGIC)))
    engine = next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)
    wanted = "SQLite" if isinstance(target, SqliteUrl) else "PostgreSQL"
    if engine is not None and engine != wanted:
        raise BackupFailed(
            f"{path} is a backup of {engine}, and {target.shown} is {wanted}: "
            f"restore it into a database of {engine}, such as {_TARGETS[engine]}"
        )


def _find_backup(path: Path) -> SqliteUrl:
    if not path.is_file():
        raise BackupFailed(f"there is no backup {path}")
    return SqliteUrl(path=path.absolute())
