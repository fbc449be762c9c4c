"""Logs in a directory, with a subdirectory per run and per stream. Several servers may share it."""

import asyncio
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import TypeVar

from runyard.app.log_store import ANY_POSITION, AnyPosition, LogPiece, Stream, StreamInfo
from runyard.app.lru_map import LruMap
from runyard.logs import extent_reader
from runyard.logs.errors import LogsUnavailable
from runyard.logs.folder_stream import NAMES_FILE, FolderStream, is_stream_folder
from runyard.logs.names import load_stream, name_run_folder, name_stream_folder
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
THREADS = 4
_KNOWN_STREAMS = 1000


class FolderLogs:
    """`app.ports.LogStore` in a directory. Made by `open_logs`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="logs")
        self._known: LruMap[Path, FolderStream] = LruMap(most=_KNOWN_STREAMS)
        self._known_lock = Lock()

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
            lambda: self._open(stream).append(
                stream, content, offset=offset, at=written_at, after=after, position=position
            )
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
        return await self._do(lambda: self._open(stream).add_gap(stream, gap, after=after, position=position))

    async def finish(self, stream: Stream, *, cause: str | None, at: datetime) -> None:
        """See `LogStore`."""
        check_stream(stream)
        completion = Completion(None if cause is None else cut_cause(cause), to_microseconds(at))
        await self._do(lambda: self._open(stream).finish(stream, completion))

    async def list_streams(self, run_uid: str) -> Sequence[StreamInfo]:
        """See `LogStore`."""
        return await self._do(lambda: self._list_streams(run_uid))

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
        await self._do(lambda: self._remove(self._path / name_run_folder(run_uid)))

    async def prune(self, *, before: datetime) -> int:
        """See `LogStore`."""
        oldest = to_microseconds(before)
        return await self._do(lambda: sum(map(self._remove, list(self._iter_old(oldest)))))

    async def close(self) -> None:
        """Wait for running operations. Idempotent."""
        self._threads.shutdown()

    async def list_extents(self, stream: Stream, *, offset: int = 0) -> Sequence[Extent]:
        """For `extent_reader`."""
        return await self._do(lambda: self._open(stream).list_extents(offset=offset))

    async def list_gaps(self, stream: Stream, *, offset: int = 0) -> Sequence[Gap]:
        """For `extent_reader`."""
        return await self._do(lambda: self._open(stream).list_gaps(offset=offset))

    async def load(self, stream: Stream, extent: Extent) -> Sequence[Piece]:
        """For `extent_reader`."""
        return await self._do(lambda: self._open(stream).load(extent))

    async def _do(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except OSError as error:
            raise LogsUnavailable(f"the folder of logs {self._path} cannot be used: {error}") from error
        except RuntimeError as error:
            raise LogsUnavailable("the log store is closed") from error

    def _open(self, stream: Stream) -> FolderStream:
        return self._open_path(self._path / name_run_folder(stream.run_uid) / name_stream_folder(stream))

    def _open_path(self, path: Path) -> FolderStream:
        """The files of a stream; recently used ones are cached."""
        with self._known_lock:
            found = self._known.find(path) or FolderStream(path)
            self._known.put(path, found)
            return found

    def _list_streams(self, run_uid: str) -> list[StreamInfo]:
        found = []
        for path in self._iter_streams(self._path / name_run_folder(run_uid)):
            with suppress(FileNotFoundError, ValueError):
                stream = load_stream((path / NAMES_FILE).read_bytes())
                files = self._open_path(path)
                completion, checkpoint = files.find_completion(), files.find_checkpoint()
                extents = files.list_extents()
                began_at = extent_reader.find_beginning(extents, files.list_gaps(), completion)
                info = extent_reader.make_info(stream, extents, checkpoint=checkpoint, completion=completion)
                found.append((began_at, info))
        return extent_reader.sort_infos(found)

    def _iter_old(self, before: int) -> Iterator[Path]:
        for run in self._iter_streams(self._path):
            for path in self._iter_streams(run):
                files = self._open_path(path)
                if extent_reader.find_end(files.list_extents(), files.list_gaps(), files.find_completion()) < before:
                    yield path

    def _iter_streams(self, folder: Path) -> Iterator[Path]:
        with suppress(FileNotFoundError), os.scandir(folder) as entries:
            yield from sorted(Path(entry.path) for entry in entries if is_stream_folder(entry))

    def _remove(self, path: Path) -> bool:
        """Rename it away (atomic), then delete it."""
        hidden = path.with_name(f".deleted-{uuid.uuid4().hex}")
        try:
            path.rename(hidden)
        except FileNotFoundError:
            return False
        shutil.rmtree(hidden, ignore_errors=True)
        with suppress(OSError):  # not empty
            if path.parent != self._path:
                path.parent.rmdir()
        return True
