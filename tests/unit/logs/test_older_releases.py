"""Logs that older releases wrote, without instances, positions and ends, are read and continued."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from runyard.app.log_store import LogStore, Stream
from runyard.logs import open_logs
from runyard.logs.frames import make_frame
from runyard.logs.names import name_run_folder
from runyard.logs.pieces import Piece, pack, to_microseconds
from tests.contract.logs.builders import START, STREAM, after, read_all, write

# As release 2 of the log database made them; release 1 had `run_id` instead of `run_uid`.
_TABLES = """
CREATE TABLE streams (id INTEGER PRIMARY KEY, {run} TEXT NOT NULL, pod TEXT NOT NULL, container TEXT NOT NULL,
    size INTEGER NOT NULL, loose INTEGER NOT NULL, began_at INTEGER NOT NULL, first_at INTEGER, last_at INTEGER,
    ended_at INTEGER NOT NULL, UNIQUE ({run}, pod, container));
CREATE TABLE chunks (id INTEGER PRIMARY KEY, stream INTEGER NOT NULL REFERENCES streams ON DELETE CASCADE,
    start INTEGER NOT NULL, length INTEGER NOT NULL, first_at INTEGER NOT NULL, last_at INTEGER NOT NULL,
    is_packed INTEGER NOT NULL, content BLOB NOT NULL);
CREATE UNIQUE INDEX chunks_by_start ON chunks (stream, start, length, first_at, last_at, is_packed);
CREATE TABLE gaps (id INTEGER PRIMARY KEY, stream INTEGER NOT NULL REFERENCES streams ON DELETE CASCADE,
    start INTEGER NOT NULL, since INTEGER NOT NULL, until INTEGER NOT NULL, cause TEXT NOT NULL);
CREATE INDEX gaps_by_start ON gaps (stream, start);
"""
AT = to_microseconds(START)
# The directory of STREAM in every release so far.
FOLDER = "run-1-abc-main-581703bc8efa469e2c647daa1eabc496"


async def check_and_continue(logs: LogStore) -> None:
    (info,) = await logs.list_streams("run-1")
    assert (info.stream, info.size, info.first_at, info.last_at) == (STREAM, 8, START, START)
    assert (info.position, info.position_offset, info.is_complete, info.cause) == (None, 0, False, None)
    pieces = await logs.read(STREAM)
    assert [(piece.content, piece.gap) for piece in pieces] == [(b"one\n", None), (b"", "lost"), (b"two\n", None)]
    assert await logs.append(STREAM, b"three\n", offset=8, at=after(1), position="p3") == 14
    restarted = Stream("run-1", "run-1-abc", "main", 1)
    await write(logs, b"again\n", stream=restarted)
    await logs.finish(STREAM, cause=None, at=after(2))
    first, second = await logs.list_streams("run-1")
    assert (first.stream, first.size, first.position, first.is_complete) == (STREAM, 14, "p3", True)
    assert (second.stream, second.size) == (restarted, 6)
    assert await read_all(logs) == b"one\ntwo\nthree\n"
    await logs.delete("run-1")
    assert await logs.read(STREAM) == []
    await logs.close()


@pytest.mark.parametrize("version", [1, 2])
async def test_database_is_upgraded_with_its_bytes_when_an_older_release_made_it(tmp_path: Path, version: int) -> None:
    with closing(sqlite3.connect(tmp_path / "logs.db")) as database:
        database.executescript(_TABLES.format(run="run_id" if version == 1 else "run_uid"))
        database.execute("INSERT INTO streams VALUES (7, 'run-1', 'run-1-abc', 'main', 8, 4, ?1, ?1, ?1, ?1)", (AT,))
        packed = pack([Piece(offset=0, at=AT, content=b"one\n")])
        database.execute("INSERT INTO chunks VALUES (1, 7, 0, 4, ?1, ?1, 1, ?2)", (AT, packed))
        database.execute("INSERT INTO chunks VALUES (2, 7, 4, 4, ?1, ?1, 0, ?2)", (AT, b"two\n"))
        database.execute("INSERT INTO gaps VALUES (1, 7, 4, ?1, ?1, 'lost')", (AT,))
        database.execute(f"PRAGMA user_version = {version}")
        database.commit()
    await check_and_continue(open_logs(f"database:{tmp_path}/logs.db"))
    with closing(sqlite3.connect(tmp_path / "logs.db")) as database:
        assert database.execute("SELECT count(*) FROM chunks").fetchall() == [(0,)]
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []


async def test_directory_is_continued_when_an_older_release_made_it(tmp_path: Path) -> None:
    files = tmp_path / "logs" / name_run_folder("run-1") / FOLDER
    files.mkdir(parents=True)
    (files / "stream.json").write_text('{"run": "run-1", "pod": "run-1-abc", "container": "main"}')
    packed = pack([Piece(offset=0, at=AT, content=b"one\n")])
    (files / "chunks").write_bytes(make_frame(packed, offset=0, length=4, first_at=AT, last_at=AT))
    (files / "tail").write_bytes(make_frame(b"two\n", offset=4, length=4, first_at=AT, last_at=AT))
    (files / "gaps").write_bytes(make_frame(b"lost", offset=4, length=0, first_at=AT, last_at=AT))
    await check_and_continue(open_logs(f"folder:{tmp_path / 'logs'}"))
