"""SQLite databases with tables: the migrations run once in a process, and every database is a copy of the first.

The migrations take a tenth of a second of processor time, which is more than most tests of a server need themselves.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from runyard.store import upgrade

_first: list[tuple[bytes, list[bytes]]] = []
"""The contents of the first database and the ids in it, once there is one."""


async def create_sqlite(file: Path) -> str:
    """Create a database as `upgrade` does, with ids of an installation of its own; returns its URL."""
    if not _first:
        with TemporaryDirectory() as folder:
            first = Path(folder) / "first.db"
            await upgrade(f"sqlite:///{first}")
            _first.append((first.read_bytes(), _read_ids(first)))
    _copy(*_first[0], file)
    return f"sqlite:///{file}"


async def ensure_sqlite(file: Path) -> str:
    """The same, unless the file exists."""
    return f"sqlite:///{file}" if _exists(file) else await create_sqlite(file)


def _read_ids(file: Path) -> list[bytes]:
    with closing(sqlite3.connect(file)) as connection:
        rows = connection.execute("SELECT value FROM meta WHERE name IN ('installation', 'epoch')").fetchall()
    return [value.encode() for (value,) in rows]


def _copy(contents: bytes, ids: list[bytes], file: Path) -> None:
    for value in ids:
        # In place: to open the copy for an UPDATE would take longer than all the rest.
        assert contents.count(value) == 1, "an id of the installation stands in another place too"
        contents = contents.replace(value, uuid4().hex.encode())
    file.write_bytes(contents)


def _exists(file: Path) -> bool:
    return file.exists()
