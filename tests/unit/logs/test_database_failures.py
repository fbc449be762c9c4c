import asyncio
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from runyard.app.log_store import Stream
from runyard.logs import LogsUnavailable, open_logs
from runyard.logs.database import DatabaseLogs
from runyard.logs.database_rows import MOST_FREE_PAGES, connect, list_extents
from tests.contract.logs.builders import START, STREAM, read_all, write


async def test_failure_is_told_to_everyone_when_the_file_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "logs.db").write_text("this is no database, and it is long enough to be looked at" * 20)
    logs = open_logs(f"database:{tmp_path}/logs.db")
    answers = await asyncio.gather(*(write(logs, b"x") for _ in range(3)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [LogsUnavailable] * 3
    await logs.close()


async def test_database_is_left_alone_when_a_newer_release_made_it(tmp_path: Path) -> None:
    logs = open_logs(f"database:{tmp_path}/logs.db")
    await write(logs, b"x")
    await logs.close()
    with closing(sqlite3.connect(tmp_path / "logs.db")) as database:
        database.execute("PRAGMA user_version = 99")
    later = open_logs(f"database:{tmp_path}/logs.db")
    with pytest.raises(LogsUnavailable, match="newer release"):
        await later.read(STREAM)
    await later.close()


async def test_appends_share_a_commit_when_they_wait_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = DatabaseLogs(tmp_path / "logs.db")
    await write(logs, b"first")
    rounds: list[int] = []
    work_off = logs._work_off

    def count(loop: asyncio.AbstractEventLoop) -> None:
        rounds.append(len(logs._waiting))
        work_off(loop)

    monkeypatch.setattr(logs, "_work_off", count)
    streams = [Stream("run", str(number), "main") for number in range(50)]
    await asyncio.gather(*(logs.append(stream, b"x", offset=0, at=START) for stream in streams))
    assert sum(1 for waiting in rounds if waiting) < 50
    assert len(await logs.list_streams("run")) == 50
    await logs.close()


async def test_others_are_answered_when_who_asked_is_cancelled(tmp_path: Path) -> None:
    logs = DatabaseLogs(tmp_path / "logs.db")
    tasks = [asyncio.create_task(write(logs, b"x", stream=Stream("run", str(n), "c"))) for n in range(4)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [answers[0], answers[2], answers[3]] == [1, 1, 1]
    assert isinstance(answers[1], asyncio.CancelledError)
    await logs.close()


async def test_content_is_compressed_when_there_is_enough_of_it(tmp_path: Path) -> None:
    logs = open_logs(f"database:{tmp_path}/logs.db")
    await write(logs, *[b"the same line again and again\n" * 1000] * 40)
    assert len(await read_all(logs)) == 1_200_000
    await logs.close()
    assert (tmp_path / "logs.db").stat().st_size < 300_000


async def test_room_is_given_back_when_runs_are_deleted(tmp_path: Path) -> None:
    logs = open_logs(f"database:{tmp_path}/logs.db")
    await logs.append(STREAM, random.Random(3).randbytes(3_000_000), offset=0, at=START)
    await write(logs, b"kept", stream=Stream("other", "p", "c"))
    await logs.delete("run-1")
    await logs.close()
    with closing(sqlite3.connect(tmp_path / "logs.db")) as database:
        [(free_pages,)] = database.execute("PRAGMA freelist_count").fetchall()
    assert free_pages <= MOST_FREE_PAGES
    assert (tmp_path / "logs.db").stat().st_size < 2_000_000


async def test_bytes_are_not_touched_when_extents_are_listed(tmp_path: Path) -> None:
    logs = open_logs(f"database:{tmp_path}/logs.db")
    await write(logs, b"x")
    await logs.close()
    statements: list[str] = []
    with closing(connect(tmp_path / "logs.db")) as database:
        database.set_trace_callback(statements.append)
        list_extents(database, STREAM, offset=0)
        database.set_trace_callback(None)
        [listing] = [statement for statement in statements if "FROM chunks" in statement]
        plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {listing}")]
    assert plan
    assert all("USING COVERING INDEX chunks_by_start" in step or "SCALAR SUBQUERY" in step for step in plan)


@pytest.mark.parametrize("place", ["", "floppy:x", "database:", "folder:", "s3://bucket", "s3:bucket"])
def test_place_is_refused_when_it_is_none(place: str) -> None:
    with pytest.raises(ValueError, match="logs are kept in"):
        open_logs(place)
