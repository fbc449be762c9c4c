"""Logs in a SQLite file of their own, which shares no writer with run state.

One thread owns the connection. Waiting appends are committed together (group commit), so that a slow disk is waited for
once. An append is acknowledged after its commit is on the disk.
"""

import asyncio
import os
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from runyard.app.log_store import ANY_POSITION, AnyPosition, LogPiece, Stream, StreamInfo
from runyard.app.ports import Stale
from runyard.logs import database_rows as rows
from runyard.logs import extent_reader
from runyard.logs.errors import LogsUnavailable
from runyard.logs.pieces import (
    Completion,
    Extent,
    Gap,
    Piece,
    check_position,
    check_stream,
    cut_cause,
    to_microseconds,
)

T = TypeVar("T")
_Job = tuple[Callable[[sqlite3.Connection], Any], "asyncio.Future[Any]"]


class DatabaseLogs:
    """`app.ports.LogStore` in a file. Made by `open_logs`; belongs to the event loop that made it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="logs")
        self._waiting: deque[_Job] = deque()
        self._connection: sqlite3.Connection | None = None

    async def append(
        self,
        stream: Stream,
        content: bytes,
        *,
        offset: int,
        at: datetime,
        after: str | AnyPosition | None = ANY_POSITION,
        position: str | None = None,
    ) -> int:
        """See `LogStore`."""
        check_stream(stream)
        check_position(position)
        written_at = to_microseconds(at)
        return await self._do(
            lambda db: rows.append(db, stream, content, offset=offset, at=written_at, after=after, position=position)
        )

    async def mark_gap(
        self,
        stream: Stream,
        *,
        since: datetime,
        until: datetime,
        cause: str,
        after: str | AnyPosition | None = ANY_POSITION,
        position: str | None = None,
    ) -> int:
        """See `LogStore`."""
        check_stream(stream)
        check_position(position)
        first, last = to_microseconds(since), to_microseconds(until)
        gap = Gap(offset=0, since=first, until=last, cause=cut_cause(cause))
        return await self._do(lambda db: rows.add_gap(db, stream, gap, after=after, position=position))

    async def finish(self, stream: Stream, *, cause: str | None, at: datetime) -> None:
        """See `LogStore`."""
        check_stream(stream)
        completion = Completion(None if cause is None else cut_cause(cause), to_microseconds(at))
        await self._do(lambda db: rows.finish(db, stream, completion))

    async def list_streams(self, run_uid: str) -> Sequence[StreamInfo]:
        """See `LogStore`."""
        return await self._do(lambda db: rows.list_streams(db, run_uid))

    async def read(self, stream: Stream, *, offset: int = 0, limit: int = 1 << 20) -> Sequence[LogPiece]:
        """See `LogStore`."""
        return await extent_reader.read(self, stream, offset=offset, limit=limit)

    async def find_since(self, stream: Stream, since: datetime) -> int:
        """See `LogStore`."""
        return await extent_reader.find_since(self, stream, to_microseconds(since))

    async def find_tail(self, stream: Stream, lines: int) -> int:
        """See `LogStore`."""
        return await extent_reader.find_tail(self, stream, lines)

    async def delete(self, run_uid: str) -> None:
        """See `LogStore`."""
        await self._do(lambda db: rows.delete_run(db, run_uid))

    async def prune(self, *, before: datetime) -> int:
        """See `LogStore`."""
        oldest = to_microseconds(before)
        return await self._do(lambda db: rows.prune(db, before=oldest))

    async def close(self) -> None:
        """Finish waiting jobs, then close the file. Idempotent."""
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, self._close)
        except RuntimeError:
            return  # closed already
        self._thread.shutdown()

    async def list_extents(self, stream: Stream, *, offset: int = 0) -> Sequence[Extent]:
        """For `extent_reader`."""
        return await self._do(lambda db: rows.list_extents(db, stream, offset=offset))

    async def list_gaps(self, stream: Stream, *, offset: int = 0) -> Sequence[Gap]:
        """For `extent_reader`."""
        return await self._do(lambda db: rows.list_gaps(db, stream, offset=offset))

    async def load(self, stream: Stream, extent: Extent) -> Sequence[Piece]:
        """For `extent_reader`."""
        return await self._do(lambda db: rows.load(db, stream, extent))

    async def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._waiting.append((work, done))
        try:
            self._thread.submit(self._work_off, loop)
        except RuntimeError as error:
            self._waiting.clear()
            raise LogsUnavailable("the log store is closed") from error
        return await done

    def _work_off(self, loop: asyncio.AbstractEventLoop) -> None:
        """On the thread: run all waiting jobs in one transaction; results are delivered after the commit."""
        jobs = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if not jobs:
            return
        answers: list[tuple[asyncio.Future[Any], Any, BaseException | None]] = []
        try:
            database = self._get_connection()
            database.execute("BEGIN IMMEDIATE")
            for work, done in jobs:
                answers.append((done, *_try(database, work)))
            database.execute("COMMIT")
            rows.shrink(database)
        except Exception as error:  # noqa: BLE001 - those who wait are answered, whatever it was
            failed = LogsUnavailable(f"the log database {self._path} cannot be used: {error}")
            failed.__cause__ = error
            answers = [(done, None, failed) for _, done in jobs]
            if self._connection is not None and self._connection.in_transaction:
                self._connection.rollback()
        loop.call_soon_threadsafe(_answer, answers)

    def _get_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Logs are private, whatever the umask is.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
            self._connection = rows.connect(self._path)
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _try(database: sqlite3.Connection, work: Callable[[sqlite3.Connection], Any]) -> tuple[Any, BaseException | None]:
    """Run one job in a savepoint, so that a refused job does not roll back the others."""
    database.execute("SAVEPOINT job")
    try:
        answer = work(database)
    except (ValueError, Stale, LogsUnavailable) as error:
        database.execute("ROLLBACK TO job")
        database.execute("RELEASE job")
        return None, error
    database.execute("RELEASE job")
    return answer, None


def _answer(answers: Sequence[tuple["asyncio.Future[Any]", Any, BaseException | None]]) -> None:
    for done, answer, error in answers:
        if done.done():
            continue  # who asked was cancelled
        if error is None:
            done.set_result(answer)
        else:
            done.set_exception(error)
