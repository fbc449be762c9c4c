"""The rows of the log database. Call the functions inside a transaction, except `connect` and `shrink`."""

import sqlite3
from pathlib import Path

from runyard.app.ports import Stream, StreamInfo
from runyard.logs.errors import LogsUnavailable
from runyard.logs.pieces import CHUNK_BYTES, Extent, Gap, Piece, cut_new, from_microseconds, make_extent, pack, unpack

VERSION = 2
MOST_FREE_PAGES = 256
_TABLES = (
    """CREATE TABLE streams (
        id INTEGER PRIMARY KEY, run_uid TEXT NOT NULL, pod TEXT NOT NULL, container TEXT NOT NULL,
        size INTEGER NOT NULL, loose INTEGER NOT NULL, began_at INTEGER NOT NULL, first_at INTEGER, last_at INTEGER,
        ended_at INTEGER NOT NULL, UNIQUE (run_uid, pod, container))""",
    """CREATE TABLE chunks (
        id INTEGER PRIMARY KEY, stream INTEGER NOT NULL REFERENCES streams ON DELETE CASCADE, start INTEGER NOT NULL,
        length INTEGER NOT NULL, first_at INTEGER NOT NULL, last_at INTEGER NOT NULL, is_packed INTEGER NOT NULL,
        content BLOB NOT NULL)""",
    # A covering index: extents are listed without reading their bytes.
    "CREATE UNIQUE INDEX chunks_by_start ON chunks (stream, start, length, first_at, last_at, is_packed)",
    """CREATE TABLE gaps (
        id INTEGER PRIMARY KEY, stream INTEGER NOT NULL REFERENCES streams ON DELETE CASCADE, start INTEGER NOT NULL,
        since INTEGER NOT NULL, until INTEGER NOT NULL, cause TEXT NOT NULL)""",
    "CREATE INDEX gaps_by_start ON gaps (stream, start)",
)
_INSERT_CHUNK = (
    "INSERT INTO chunks (stream, start, length, first_at, last_at, is_packed, content) VALUES (?, ?, ?, ?, ?, ?, ?)"
)


def connect(path: Path) -> sqlite3.Connection:
    """A connection with durable commits. Creates missing tables and upgrades old ones."""
    database = sqlite3.connect(path, isolation_level=None, timeout=10, check_same_thread=False)
    for setting in ("auto_vacuum = INCREMENTAL", "journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        database.execute(f"PRAGMA {setting}").fetchall()
    database.execute("BEGIN IMMEDIATE")
    [(version,)] = database.execute("PRAGMA user_version").fetchall()
    if version not in range(VERSION + 1):
        database.close()
        raise LogsUnavailable(f"the log database {path} is of a newer release; it was left untouched")
    if version == 0:
        for statement in _TABLES:
            database.execute(statement)
    if version == 1:
        # Runs of that time have their id as uid.
        database.execute("ALTER TABLE streams RENAME COLUMN run_id TO run_uid")
    if version != VERSION:
        database.execute(f"PRAGMA user_version = {VERSION}")
    database.execute("COMMIT")
    return database


def append(database: sqlite3.Connection, stream: Stream, content: bytes, *, offset: int, at: int) -> int:
    """Store the new part of the content; returns the stream's size."""
    stream_id, size, loose = _find_stream(database, stream) or (None, 0, 0)
    pieces = list(cut_new(content, offset=offset, size=size, at=at))
    if not pieces:
        return int(size)
    if stream_id is None:
        stream_id = _add_stream(database, stream, began_at=at, ended_at=at)
    for piece in pieces:
        row = (stream_id, piece.offset, len(piece.content), at, at, 0, piece.content)
        database.execute(_INSERT_CHUNK, row)
        loose += len(piece.content)
        if loose >= CHUNK_BYTES:
            _pack_loose(database, stream_id)
            loose = 0
    database.execute(
        "UPDATE streams SET size = ?1, loose = ?2, first_at = coalesce(first_at, ?3), "
        "last_at = max(coalesce(last_at, ?3), ?3), began_at = min(began_at, ?3), "
        "ended_at = max(coalesce(last_at, ?3), ?3) WHERE id = ?4",
        (pieces[-1].end, loose, at, stream_id),
    )
    return pieces[-1].end


def add_gap(database: sqlite3.Connection, stream: Stream, *, since: int, until: int, cause: str) -> None:
    """Record a gap at the current end."""
    stream_id, size, _ = _find_stream(database, stream) or (None, 0, 0)
    if stream_id is None:
        stream_id = _add_stream(database, stream, began_at=since, ended_at=until)
    database.execute(
        "INSERT INTO gaps (stream, start, since, until, cause) VALUES (?, ?, ?, ?, ?)",
        (stream_id, size, since, until, cause),
    )
    database.execute(
        "UPDATE streams SET began_at = min(began_at, ?1), ended_at = coalesce(last_at, max(ended_at, ?2)) "
        "WHERE id = ?3",
        (since, until, stream_id),
    )


def list_streams(database: sqlite3.Connection, run_uid: str) -> list[StreamInfo]:
    """The streams of a run, in the order in which they began."""
    found = database.execute(
        "SELECT pod, container, size, first_at, last_at FROM streams WHERE run_uid = ? "
        "ORDER BY began_at, pod, container",
        (run_uid,),
    )
    return [
        StreamInfo(
            stream=Stream(run_uid, pod, container),
            size=size,
            first_at=None if first_at is None else from_microseconds(first_at),
            last_at=None if last_at is None else from_microseconds(last_at),
        )
        for pod, container, size, first_at, last_at in found
    ]


def list_extents(database: sqlite3.Connection, stream: Stream, *, offset: int) -> list[Extent]:
    """Extents from the one that contains the offset on."""
    found = database.execute(
        "SELECT start, length, first_at, last_at FROM chunks WHERE stream = ?1 AND start >= "
        "coalesce((SELECT max(start) FROM chunks WHERE stream = ?1 AND start <= ?2), 0) ORDER BY start",
        (_find_id(database, stream), offset),
    )
    extents = [
        Extent(offset=start, length=length, first_at=first_at, last_at=last_at)
        for start, length, first_at, last_at in found
    ]
    return [extent for extent in extents if extent.end > offset]


def list_gaps(database: sqlite3.Connection, stream: Stream, *, offset: int) -> list[Gap]:
    """Gaps from the offset on."""
    found = database.execute(
        "SELECT start, since, until, cause FROM gaps WHERE stream = ? AND start >= ? ORDER BY start, id",
        (_find_id(database, stream), offset),
    )
    return [Gap(offset=start, since=since, until=until, cause=cause) for start, since, until, cause in found]


def load(database: sqlite3.Connection, stream: Stream, extent: Extent) -> list[Piece]:
    """The row that contains its start. It may be larger by now, because pieces are compacted."""
    found = database.execute(
        "SELECT start, first_at, is_packed, content FROM chunks "
        "WHERE stream = ? AND start <= ? ORDER BY start DESC LIMIT 1",
        (_find_id(database, stream), extent.offset),
    ).fetchone()
    if found is None:
        return []
    start, first_at, is_packed, content = found
    return unpack(content, offset=start) if is_packed else [Piece(offset=start, at=first_at, content=content)]


def delete_run(database: sqlite3.Connection, run_uid: str) -> None:
    """Delete all streams of a run."""
    database.execute("DELETE FROM streams WHERE run_uid = ?", (run_uid,))


def prune(database: sqlite3.Connection, *, before: int) -> int:
    """Delete streams that ended before; returns how many."""
    return database.execute("DELETE FROM streams WHERE ended_at < ?", (before,)).rowcount


def shrink(database: sqlite3.Connection) -> None:
    """Return free pages to the file system, if there are many."""
    [(free_pages,)] = database.execute("PRAGMA freelist_count").fetchall()
    if free_pages > MOST_FREE_PAGES:
        # As a script: `execute` would step once, which frees one page.
        database.executescript("PRAGMA incremental_vacuum")


def _add_stream(database: sqlite3.Connection, stream: Stream, *, began_at: int, ended_at: int) -> int:
    added = database.execute(
        "INSERT INTO streams (run_uid, pod, container, size, loose, began_at, ended_at) VALUES (?, ?, ?, 0, 0, ?, ?)",
        (stream.run_uid, stream.pod, stream.container, began_at, ended_at),
    )
    return int(added.lastrowid or 0)


def _pack_loose(database: sqlite3.Connection, stream_id: int) -> None:
    found = database.execute(
        "SELECT start, first_at, content FROM chunks WHERE stream = ? AND NOT is_packed ORDER BY start", (stream_id,)
    )
    pieces = [Piece(offset=start, at=at, content=content) for start, at, content in found]
    whole = make_extent(pieces)
    database.execute("DELETE FROM chunks WHERE stream = ? AND NOT is_packed", (stream_id,))
    row = (stream_id, whole.offset, whole.length, whole.first_at, whole.last_at, 1, pack(pieces))
    database.execute(_INSERT_CHUNK, row)


def _find_stream(database: sqlite3.Connection, stream: Stream) -> tuple[int, int, int] | None:
    """Id, size, and number of bytes that are not in a chunk yet."""
    found: tuple[int, int, int] | None = database.execute(
        "SELECT id, size, loose FROM streams WHERE run_uid = ? AND pod = ? AND container = ?",
        (stream.run_uid, stream.pod, stream.container),
    ).fetchone()
    return found


def _find_id(database: sqlite3.Connection, stream: Stream) -> int | None:
    found = _find_stream(database, stream)
    return found and found[0]
