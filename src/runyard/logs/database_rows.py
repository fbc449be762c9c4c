"""The rows of the log database. Call the functions inside a transaction, except `connect` and `shrink`."""

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from runyard.app.log_store import AnyPosition, Stream, StreamInfo
from runyard.logs.errors import LogsUnavailable
from runyard.logs.pieces import (
    CHUNK_BYTES,
    Checkpoint,
    Completion,
    Extent,
    Gap,
    Piece,
    check_after,
    cut_new,
    from_microseconds,
    make_extent,
    pack,
    plan_gap,
    refuse_complete,
    unpack,
)

VERSION = 3
MOST_FREE_PAGES = 256
_STREAMS = """CREATE TABLE streams (
        id INTEGER PRIMARY KEY, run_uid TEXT NOT NULL, pod TEXT NOT NULL, container TEXT NOT NULL,
        size INTEGER NOT NULL, loose INTEGER NOT NULL, began_at INTEGER NOT NULL, first_at INTEGER, last_at INTEGER,
        ended_at INTEGER NOT NULL, instance INTEGER NOT NULL DEFAULT 0, position TEXT,
        position_offset INTEGER NOT NULL DEFAULT 0, is_complete INTEGER NOT NULL DEFAULT 0, cause TEXT,
        UNIQUE (run_uid, pod, container, instance))"""
_TABLES = (
    _STREAMS,
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


class _StreamRow(NamedTuple):
    id: int
    size: int
    loose: int
    """Bytes that are not in a chunk yet."""
    position: str | None
    position_offset: int
    is_complete: int

    @property
    def checkpoint(self) -> Checkpoint | None:
        return None if self.position is None else Checkpoint(self.position, self.position_offset)


def connect(path: Path) -> sqlite3.Connection:
    """A connection with durable commits. Creates missing tables and upgrades old ones."""
    database = sqlite3.connect(path, isolation_level=None, timeout=10, check_same_thread=False)
    # Foreign keys are off during the upgrade: replacing the table of streams must not delete their chunks.
    for setting in ("auto_vacuum = INCREMENTAL", "journal_mode = WAL", "synchronous = FULL", "foreign_keys = OFF"):
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
    if version in (1, 2):
        _add_instances(database)
    if version != VERSION:
        database.execute(f"PRAGMA user_version = {VERSION}")
    database.execute("COMMIT")
    database.execute("PRAGMA foreign_keys = ON")
    return database


def append(
    database: sqlite3.Connection,
    stream: Stream,
    content: bytes,
    *,
    offset: int,
    at: int,
    after: str | AnyPosition | None,
    position: str | None,
) -> int:
    """Store the new part of the content with the position; returns the stream's size."""
    found = _find_stream(database, stream)
    size = found.size if found else 0
    pieces = list(cut_new(content, offset=offset, size=size, at=at))
    if not pieces:
        return size
    if found is not None and found.is_complete:
        raise refuse_complete(stream)
    check_after(after, before=found.checkpoint if found else None)
    stream_id = found.id if found else _add_stream(database, stream, began_at=at, ended_at=at)
    loose = found.loose if found else 0
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
        "ended_at = max(coalesce(last_at, ?3), ?3), position_offset = iif(?5 IS NULL, position_offset, ?1), "
        "position = coalesce(?5, position) WHERE id = ?4",
        (pieces[-1].end, loose, at, stream_id, position),
    )
    return pieces[-1].end


def add_gap(
    database: sqlite3.Connection,
    stream: Stream,
    gap: Gap,
    *,
    after: str | AnyPosition | None,
    position: str | None,
) -> int:
    """Record a gap with the position at the current end; returns the stream's size."""
    found = _find_stream(database, stream)
    size = found.size if found else 0
    gap = replace(gap, offset=size)
    known = list_gaps(database, stream, offset=size) if found else []
    planned = plan_gap(gap, position, after=after, known=known, before=found.checkpoint if found else None)
    if planned is None:
        return size
    if found is not None and found.is_complete:
        raise refuse_complete(stream)
    stream_id = found.id if found else _add_stream(database, stream, began_at=gap.since, ended_at=gap.until)
    database.execute(
        "INSERT INTO gaps (stream, start, since, until, cause) VALUES (?, ?, ?, ?, ?)",
        (stream_id, gap.offset, gap.since, gap.until, gap.cause),
    )
    checkpoint = planned.checkpoint
    database.execute(
        "UPDATE streams SET began_at = min(began_at, ?1), ended_at = coalesce(last_at, max(ended_at, ?2)), "
        "position = ?4, position_offset = ?5 WHERE id = ?3",
        (
            gap.since,
            gap.until,
            stream_id,
            checkpoint and checkpoint.position,
            checkpoint.offset if checkpoint else 0,
        ),
    )
    return size


def finish(database: sqlite3.Connection, stream: Stream, completion: Completion) -> None:
    """Mark the stream as complete."""
    found = _find_stream(database, stream)
    at = completion.at
    stream_id = found.id if found else _add_stream(database, stream, began_at=at, ended_at=at)
    database.execute(
        "UPDATE streams SET is_complete = 1, cause = ? WHERE id = ? AND NOT is_complete", (completion.cause, stream_id)
    )


def list_streams(database: sqlite3.Connection, run_uid: str) -> list[StreamInfo]:
    """The streams of a run, in the order in which they began."""
    found = database.execute(
        "SELECT pod, container, instance, size, first_at, last_at, position, position_offset, is_complete, cause "
        "FROM streams WHERE run_uid = ? ORDER BY began_at, pod, container, instance",
        (run_uid,),
    )
    return [
        StreamInfo(
            stream=Stream(run_uid, pod, container, instance),
            size=size,
            first_at=None if first_at is None else from_microseconds(first_at),
            last_at=None if last_at is None else from_microseconds(last_at),
            position=position,
            position_offset=position_offset,
            is_complete=bool(is_complete),
            cause=cause,
        )
        for (
            pod,
            container,
            instance,
            size,
            first_at,
            last_at,
            position,
            position_offset,
            is_complete,
            cause,
        ) in found
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
        "INSERT INTO streams (run_uid, pod, container, instance, size, loose, began_at, ended_at) "
        "VALUES (?, ?, ?, ?, 0, 0, ?, ?)",
        (stream.run_uid, stream.pod, stream.container, stream.instance, began_at, ended_at),
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


def _find_stream(database: sqlite3.Connection, stream: Stream) -> _StreamRow | None:
    found = database.execute(
        "SELECT id, size, loose, position, position_offset, is_complete FROM streams "
        "WHERE run_uid = ? AND pod = ? AND container = ? AND instance = ?",
        (stream.run_uid, stream.pod, stream.container, stream.instance),
    ).fetchone()
    return found and _StreamRow(*found)


def _find_id(database: sqlite3.Connection, stream: Stream) -> int | None:
    found = _find_stream(database, stream)
    return found and found.id


def _add_instances(database: sqlite3.Connection) -> None:
    """Upgrade to version 3. SQLite cannot change a UNIQUE constraint, so the table is copied."""
    columns = "id, run_uid, pod, container, size, loose, began_at, first_at, last_at, ended_at"
    # The new table is made under another name and renamed, so that chunks and gaps keep referring to `streams`.
    database.execute(_STREAMS.replace("CREATE TABLE streams", "CREATE TABLE new_streams"))
    database.execute(f"INSERT INTO new_streams ({columns}) SELECT {columns} FROM streams")  # noqa: S608 - constants
    database.execute("DROP TABLE streams")
    database.execute("ALTER TABLE new_streams RENAME TO streams")
