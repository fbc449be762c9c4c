"""One stream as a directory: `chunks` (compressed), `tail` (pieces that are not compacted yet), `gaps`, `stream.json`,
and `complete.json` once it is complete. Behind its content, a frame has the checkpoint that holds after it.

A writer locks `chunks`, also against other processes. A chunk is on the disk before its pieces leave the tail, and
readers read the tail first: they may see a piece twice, but never miss one.
"""

import fcntl
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from runyard.app.log_store import AnyPosition, Stream
from runyard.logs.errors import LogsUnavailable
from runyard.logs.frames import Frame, iter_frames, make_frame, read_frame, write_frames
from runyard.logs.names import dump_completion, dump_stream, load_completion
from runyard.logs.pieces import (
    CHUNK_BYTES,
    Checkpoint,
    Completion,
    Extent,
    Gap,
    Piece,
    check_after,
    cut_new,
    drop_overlaps,
    dump_checkpoint,
    find_checkpoint,
    load_checkpoint,
    make_extent,
    pack,
    plan_gap,
    refuse_complete,
    set_checkpoints,
    unpack,
)

NAMES_FILE = "stream.json"
COMPLETION_FILE = "complete.json"


class FolderStream:
    """The files of a stream. Caches the heads of its chunks and reads only new ones."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: list[Frame] = []
        self._last_piece: tuple[Frame, Piece] | None = None

    def append(
        self,
        stream: Stream,
        content: bytes,
        *,
        offset: int,
        at: int,
        after: str | AnyPosition | None,
        position: str | None,
    ) -> int:
        """Store the new part of the content; returns the stream's size."""
        if not self._path.exists():
            if not list(cut_new(content, offset=offset, size=0, at=at)):
                return 0
            check_after(after, before=None)
            self._create(stream)
        with self._lock() as chunks:
            tail, end_position = self._read_tail()
            size = max(self._find_end(chunks), *(piece.end for piece in tail), 0)
            pieces = list(cut_new(content, offset=offset, size=size, at=at))
            if not pieces:
                return size
            if self.find_completion() is not None:
                raise refuse_complete(stream)
            before = self._find_checkpoint(chunks, tail)
            pieces = set_checkpoints(pieces, position, after=after, before=before)
            self._write_tail(pieces, position=end_position)
            tail += pieces
            if sum(len(piece.content) for piece in tail) >= CHUNK_BYTES:
                self._pack_tail(chunks, tail)
            return pieces[-1].end

    def add_gap(self, stream: Stream, gap: Gap, *, after: str | AnyPosition | None, position: str | None) -> int:
        """Record a gap at the current end; returns the stream's size."""
        if not self._path.exists():
            check_after(after, before=None)
            self._create(stream)
        with self._lock() as chunks, _open(self._path / "gaps", os.O_RDWR | os.O_CREAT) as gaps:
            tail, _ = self._read_tail()
            size = max(self._find_end(chunks), *(piece.end for piece in tail), 0)
            frames = list(iter_frames(gaps))
            known = [_load_gap(gaps, frame) for frame in frames if frame.offset == size]
            before = self._find_checkpoint(chunks, tail)
            planned = plan_gap(replace(gap, offset=size), position, after=after, known=known, before=before)
            if planned is None:
                return size
            if self.find_completion() is not None:
                raise refuse_complete(stream)
            write_frames(gaps, _dump_gap(planned), position=max((one.end_position for one in frames), default=0))
            return size

    def finish(self, stream: Stream, completion: Completion) -> None:
        """Mark the stream as complete."""
        if not self._path.exists():
            self._create(stream)
        with self._lock():
            if self.find_completion() is not None:
                return
            part = self._path / f".{COMPLETION_FILE}"
            with _open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as file:
                os.write(file, dump_completion(completion))
                os.fsync(file)
            part.rename(self._path / COMPLETION_FILE)
            _sync_folder(self._path)

    def find_completion(self) -> Completion | None:
        """None: it is not complete."""
        try:
            return load_completion((self._path / COMPLETION_FILE).read_bytes())
        except FileNotFoundError:
            return None

    def find_checkpoint(self) -> Checkpoint | None:
        """The last checkpoint."""
        tail, _ = self._read_tail()
        try:
            with _open(self._path / "chunks", os.O_RDONLY) as chunks:
                return self._find_checkpoint(chunks, tail)
        except FileNotFoundError:
            return None

    def list_extents(self, *, offset: int = 0) -> list[Extent]:
        """The extents in order, without overlaps."""
        tail, _ = self._read_tail()
        found = [make_extent([piece], piece) for piece in tail]
        with suppress(FileNotFoundError), _open(self._path / "chunks", os.O_RDONLY) as chunks:
            frames = self._list_frames(chunks)
            found += [_make_frame_extent(frame) for frame in frames if frame.offset + frame.length > offset]
        return [extent for extent in drop_overlaps(found) if extent.end > offset]

    def list_gaps(self, *, offset: int = 0) -> list[Gap]:
        """Gaps from the offset on."""
        try:
            with _open(self._path / "gaps", os.O_RDONLY) as gaps:
                return [_load_gap(gaps, frame) for frame in iter_frames(gaps) if frame.offset >= offset]
        except FileNotFoundError:
            return []

    def load(self, extent: Extent) -> Sequence[Piece]:
        """The pieces of an extent from `list_extents`."""
        if isinstance(extent.place, Piece):
            return [extent.place]
        try:
            with _open(self._path / "chunks", os.O_RDONLY) as chunks:
                return unpack(read_frame(chunks, extent.place), offset=extent.place.offset)
        except FileNotFoundError:
            return []

    def _create(self, stream: Stream) -> None:
        """Create the directory with its `stream.json` atomically; a second creator uses the first one's."""
        part = self._path.with_name(f".new-{uuid.uuid4().hex}")
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part.mkdir(mode=0o700)
        with _open(part / NAMES_FILE, os.O_WRONLY | os.O_CREAT) as names:
            os.write(names, dump_stream(stream))
            os.fsync(names)
        try:
            part.rename(self._path)
        except OSError:
            (part / NAMES_FILE).unlink()
            part.rmdir()
            if not self._path.exists():
                raise
        for folder in (self._path, self._path.parent, self._path.parent.parent):
            _sync_folder(folder)

    @contextmanager
    def _lock(self) -> Iterator[int]:
        with _open(self._path / "chunks", os.O_RDWR | os.O_CREAT) as chunks:
            fcntl.flock(chunks, fcntl.LOCK_EX)
            yield chunks

    def _read_tail(self) -> tuple[list[Piece], int]:
        """The complete pieces, and where they end."""
        position = 0
        pieces = []
        with suppress(FileNotFoundError), _open(self._path / "tail", os.O_RDONLY) as tail:
            for frame in iter_frames(tail):
                try:
                    content = read_frame(tail, frame)
                except LogsUnavailable:  # an incomplete piece after a power loss was not acknowledged
                    break
                checkpoint = load_checkpoint(content[frame.length :])
                content = content[: frame.length]
                pieces.append(Piece(offset=frame.offset, at=frame.first_at, content=content, checkpoint=checkpoint))
                position = frame.end_position
        return pieces, position

    def _write_tail(self, pieces: Sequence[Piece], *, position: int) -> None:
        frames = b"".join(
            make_frame(
                piece.content + dump_checkpoint(piece.checkpoint),
                offset=piece.offset,
                length=len(piece.content),
                first_at=piece.at,
                last_at=piece.at,
            )
            for piece in pieces
        )
        is_new = not (self._path / "tail").exists()
        with _open(self._path / "tail", os.O_RDWR | os.O_CREAT) as tail:
            write_frames(tail, frames, position=position)
        if is_new:
            _sync_folder(self._path)

    def _pack_tail(self, chunks: int, tail: Sequence[Piece]) -> None:
        end = self._find_end(chunks)
        frames = self._list_frames(chunks)
        pieces = [piece for piece in tail if piece.offset >= end]
        if pieces:
            whole = make_extent(pieces)
            frame = make_frame(
                pack(pieces),
                offset=whole.offset,
                length=whole.length,
                first_at=whole.first_at,
                last_at=whole.last_at,
            )
            write_frames(chunks, frame, position=frames[-1].end_position if frames else 0)
        with _open(self._path / "tail", os.O_RDWR) as file:
            os.ftruncate(file, 0)

    def _find_end(self, chunks: int) -> int:
        frames = self._list_frames(chunks)
        return frames[-1].offset + frames[-1].length if frames else 0

    def _find_checkpoint(self, chunks: int, tail: Sequence[Piece]) -> Checkpoint | None:
        frames = self._list_frames(chunks)
        last = tail[-1] if tail else None
        if frames and (last is None or last.end <= frames[-1].offset + frames[-1].length):
            if self._last_piece is None or self._last_piece[0] != frames[-1]:
                piece = unpack(read_frame(chunks, frames[-1]), offset=frames[-1].offset)[-1]
                self._last_piece = frames[-1], replace(piece, offset=piece.end, content=b"")
            last = self._last_piece[1]
        return find_checkpoint(last, self.list_gaps())

    def _list_frames(self, chunks: int) -> list[Frame]:
        """All heads. The file only grows, so it suffices to check the last known head."""
        known = self._known
        frames = [*known[:-1], *iter_frames(chunks, start=known[-1].start if known else 0)]
        if known and (len(frames) < len(known) or frames[len(known) - 1] != known[-1]):
            frames = list(iter_frames(chunks))  # another file of that name
        self._known = frames
        return frames


def _dump_gap(gap: Gap) -> bytes:
    cause = gap.cause.encode()
    content = cause + dump_checkpoint(gap.checkpoint)
    return make_frame(content, offset=gap.offset, length=len(cause), first_at=gap.since, last_at=gap.until)


def _load_gap(gaps: int, frame: Frame) -> Gap:
    content = read_frame(gaps, frame)
    length = frame.length or len(content)  # 0: of an older release, without a checkpoint
    return Gap(
        offset=frame.offset,
        since=frame.first_at,
        until=frame.last_at,
        cause=content[:length].decode(),
        checkpoint=load_checkpoint(content[length:]),
    )


def _make_frame_extent(frame: Frame) -> Extent:
    return Extent(offset=frame.offset, length=frame.length, first_at=frame.first_at, last_at=frame.last_at, place=frame)


@contextmanager
def _open(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _sync_folder(path: Path) -> None:
    with _open(path, os.O_RDONLY | os.O_DIRECTORY) as folder:
        os.fsync(folder)


def is_stream_folder(entry: "os.DirEntry[Any]") -> bool:
    """Whether it is the finished directory of a stream or run."""
    return not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
