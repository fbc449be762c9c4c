"""Logs in S3-compatible storage: one object per piece, compacted into chunks.

S3 cannot append, so every append is a PUT, acknowledged after S3 has. The checkpoint that holds after an object is a
note on it (user metadata), stored by the same PUT. A server killed between the PUT of a chunk and
the DELETE of its pieces leaves both; readers skip duplicates.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from runyard.app.log_store import ANY_POSITION, AnyPosition, LogPiece, Stream, StreamInfo
from runyard.app.lru_map import LruMap
from runyard.logs import extent_reader
from runyard.logs.errors import LogsUnavailable
from runyard.logs.names import (
    dump_completion,
    dump_stream,
    load_completion,
    load_stream,
    name_run_folder,
    name_stream_folder,
)
from runyard.logs.pieces import (
    CHUNK_BYTES,
    Checkpoint,
    Completion,
    Extent,
    Gap,
    Piece,
    check_position,
    check_stream,
    cut_cause,
    cut_new,
    dump_checkpoint,
    load_checkpoint,
    make_extent,
    pack,
    plan_gap,
    refuse_complete,
    set_checkpoints,
    to_microseconds,
    unpack,
)
from runyard.logs.s3_index import COMPLETION_KEY, NAMES_KEY, Index, Stored, find_stored, make_stored
from runyard.s3.aws_signature import Signer
from runyard.s3.bucket import Bucket
from runyard.s3.errors import S3Error

CHUNK_OBJECTS = 64
"""This many pieces are compacted into a chunk, however small they are."""
_KNOWN_STREAMS = 1000


def open_s3_logs(place: str, *, endpoint: str | None, region: str, access_key: str, secret_key: str) -> "S3Logs":
    """The store for `bucket/prefix`. Sends nothing yet."""
    name, _, prefix = place.partition("/")
    signer = Signer(access_key=access_key, secret_key=secret_key, region=region)
    bucket = Bucket(name, endpoint=endpoint, signer=signer, make_error=_make_error)
    return S3Logs(bucket, prefix=prefix.strip("/"))


class S3Logs:
    """`app.ports.LogStore` in a bucket. Made by `open_s3_logs`; belongs to one event loop."""

    def __init__(self, bucket: Bucket, *, prefix: str) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._known: LruMap[str, Index] = LruMap(most=_KNOWN_STREAMS)
        self._checkpoints: LruMap[str, tuple[Checkpoint | None]] = LruMap(most=_KNOWN_STREAMS)
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

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
        """See `LogStore`. Writers on several servers store the same bytes twice at worst; readers skip duplicates.

        If one of them finishes the stream while another appends, bytes may follow the end.
        """
        check_stream(stream)
        check_position(position)
        written_at, folder = to_microseconds(at), self._name(stream)
        async with self._locks[folder]:
            index = await self._look(folder)
            pieces = list(cut_new(content, offset=offset, size=index.size, at=written_at))
            if pieces and index.is_complete:
                raise refuse_complete(stream)
            if not pieces:
                return index.size
            before = await self._find_checkpoint(index)
            for piece in set_checkpoints(pieces, position, after=after, before=before):
                await self._ensure_names(stream, folder, index)
                await self._put_piece(folder, index, piece)
                await self._pack_loose(folder, index)
            return index.size

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
        first, last, folder = to_microseconds(since), to_microseconds(until), self._name(stream)
        async with self._locks[folder]:
            index = await self._look(folder)
            gap = Gap(offset=index.size, since=first, until=last, cause=cut_cause(cause))
            known = [await self._load_gap(one) for one in index.list_gaps() if one.offset == gap.offset]
            before = await self._find_checkpoint(index)
            planned = plan_gap(gap, position, after=after, known=known, before=before)
            if planned is None:
                return index.size
            if index.is_complete:
                raise refuse_complete(stream)
            await self._ensure_names(stream, folder, index)
            stored = make_stored(
                folder,
                offset=gap.offset,
                length=0,
                first_at=first,
                last_at=last,
                kind="gap",
                sequence=len(known),
            )
            await self._put(stored, gap.cause.encode(), planned.checkpoint)
            index.add([stored])
            return index.size

    async def finish(self, stream: Stream, *, cause: str | None, at: datetime) -> None:
        """See `LogStore`."""
        check_stream(stream)
        completion = Completion(None if cause is None else cut_cause(cause), to_microseconds(at))
        folder = self._name(stream)
        async with self._locks[folder]:
            index = await self._look(folder)
            if index.is_complete:
                return
            await self._ensure_names(stream, folder, index)
            await self._bucket.put(f"{folder}/{COMPLETION_KEY}", dump_completion(completion))
            self._known.discard(folder)

    async def list_streams(self, run_uid: str) -> Sequence[StreamInfo]:
        """See `LogStore`."""
        found = []
        for folder, index in (await self._list_folders(f"{self._prefix}{name_run_folder(run_uid)}/")).items():
            names = await self._bucket.find(f"{folder}/{NAMES_KEY}")
            if names is None:
                continue
            stream, extents = load_stream(names), index.list_extents()
            gaps = [_make_gap(gap, "") for gap in index.list_gaps()]
            completion = await self._find_completion(folder, index)
            began_at = extent_reader.find_beginning(extents, gaps, completion)
            checkpoint = await self._find_checkpoint(index)
            info = extent_reader.make_info(stream, extents, checkpoint=checkpoint, completion=completion)
            found.append((began_at, info))
        return extent_reader.sort_infos(found)

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
        await self._delete_under(f"{self._prefix}{name_run_folder(run_uid)}/")

    async def prune(self, *, before: datetime) -> int:
        """See `LogStore`. Lists every key, so call it rarely."""
        oldest = to_microseconds(before)
        old = []
        for folder, index in (await self._list_folders(self._prefix)).items():
            extents, gaps = index.list_extents(), [_make_gap(gap, "") for gap in index.list_gaps()]
            # Only a stream without bytes and gaps is as old as its end.
            completion = None if extents or gaps else await self._find_completion(folder, index)
            if extent_reader.find_end(extents, gaps, completion) < oldest:
                old.append(folder)
        for folder in old:
            await self._delete_under(f"{folder}/")
        return len(old)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._bucket.close()

    async def list_extents(self, stream: Stream, *, offset: int = 0) -> Sequence[Extent]:
        """For `extent_reader`."""
        index = await self._look(self._name(stream))
        return [extent for extent in index.list_extents() if extent.end > offset]

    async def list_gaps(self, stream: Stream, *, offset: int = 0) -> Sequence[Gap]:
        """For `extent_reader`."""
        folder = self._name(stream)
        index = self._known.find(folder) or await self._look(folder)
        gaps = [gap for gap in index.list_gaps() if gap.offset >= offset]
        return [await self._load_gap(gap) for gap in gaps]

    async def load(self, stream: Stream, extent: Extent) -> Sequence[Piece]:
        """For `extent_reader`. A missing piece was compacted meanwhile, or the stream was deleted."""
        stored: Stored = extent.place
        content = await self._bucket.find(stored.key)
        if content is None:
            folder = self._name(stream)
            self._known.discard(folder)
            again = (await self._look(folder)).list_extents()
            places = [one.place for one in again if one.offset <= extent.offset < one.end]
            if not places or places[0] == stored:
                return []
            stored, content = places[0], await self._bucket.find(places[0].key)
        return [] if content is None else _read_pieces(stored, content)

    def _name(self, stream: Stream) -> str:
        return f"{self._prefix}{name_run_folder(stream.run_uid)}/{name_stream_folder(stream)}"

    async def _look(self, folder: str) -> Index:
        """List the objects: all of them the first time, then those after the last known chunk."""
        known = self._known.find(folder) or Index()
        keys = await self._bucket.list_keys(f"{folder}/", after=known.last_chunk)
        index = known.renew(filter(None, map(find_stored, keys)))
        evicted = self._known.put(folder, index)
        if evicted is not None and not self._locks[evicted].locked():
            del self._locks[evicted]
        return index

    async def _ensure_names(self, stream: Stream, folder: str, index: Index) -> None:
        if not index.found:
            await self._bucket.put(f"{folder}/{NAMES_KEY}", dump_stream(stream))

    async def _put_piece(self, folder: str, index: Index, piece: Piece) -> None:
        stored = make_stored(
            folder, offset=piece.offset, length=len(piece.content), first_at=piece.at, last_at=piece.at, kind="raw"
        )
        await self._put(stored, piece.content, piece.checkpoint)
        index.add([stored])

    async def _put(self, stored: Stored, content: bytes, checkpoint: Checkpoint | None) -> None:
        await self._bucket.put(stored.key, content, note=dump_checkpoint(checkpoint))
        self._checkpoints.put(stored.key, (checkpoint,))

    async def _find_checkpoint(self, index: Index) -> Checkpoint | None:
        """The checkpoint after the last object, which does not change once it is stored."""
        last = index.last
        if last is None:
            return None
        known = self._checkpoints.find(last.key)
        if known is None:
            note = await self._bucket.find_note(last.key)
            if note is None:
                return None  # compacted or deleted meanwhile
            known = (load_checkpoint(note),)
            self._checkpoints.put(last.key, known)
        return known[0]

    async def _find_completion(self, folder: str, index: Index) -> Completion | None:
        if not index.is_complete:
            return None
        return load_completion(await self._bucket.find(f"{folder}/{COMPLETION_KEY}") or b"")

    async def _load_gap(self, stored: Stored) -> Gap:
        return _make_gap(stored, (await self._bucket.find(stored.key) or b"").decode())

    async def _pack_loose(self, folder: str, index: Index) -> None:
        """Compact pieces into a chunk. A failure is ignored; the next append retries."""
        loose = index.list_loose()
        if sum(stored.length for stored in loose) < CHUNK_BYTES and len(loose) < CHUNK_OBJECTS:
            return
        try:
            pieces = await self._load_loose(loose)
            whole = make_extent(pieces)
            if whole.length != sum(len(piece.content) for piece in pieces):
                return  # another writer is compacting
            last = max(loose, key=lambda stored: (stored.offset, stored.length))
            checkpoint = await self._find_checkpoint(Index({last.key: last}))
            times = {"first_at": whole.first_at, "last_at": whole.last_at}
            packed = make_stored(folder, offset=whole.offset, length=whole.length, **times, kind="packed")
            await self._put(packed, await asyncio.to_thread(pack, pieces), checkpoint)
            index.add([packed])
            await self._bucket.delete(stored.key for stored in loose)
        except LogsUnavailable:
            return
        for stored in loose:
            index.found.pop(stored.key, None)

    async def _load_loose(self, loose: Sequence[Stored]) -> list[Piece]:
        contents = await asyncio.gather(*(self._bucket.find(stored.key) for stored in loose))
        found = zip(loose, contents, strict=True)
        return [piece for stored, content in found for piece in _read_pieces(stored, content or b"")]

    async def _list_folders(self, prefix: str) -> dict[str, Index]:
        """All streams under a prefix."""
        folders: dict[str, Index] = {}
        for key in await self._bucket.list_keys(prefix):
            stored = find_stored(key)
            if stored is not None:
                folders.setdefault(key.rpartition("/")[0], Index()).add([stored])
        return folders

    async def _delete_under(self, prefix: str) -> None:
        await self._bucket.delete(await self._bucket.list_keys(prefix))
        for folder in [folder for folder in self._known if folder.startswith(prefix) or f"{folder}/" == prefix]:
            self._known.discard(folder)
        for key in [key for key in self._checkpoints if key.startswith(prefix)]:
            self._checkpoints.discard(key)


def _make_error(error: S3Error) -> LogsUnavailable:
    return LogsUnavailable(str(error))


def _read_pieces(stored: Stored, content: bytes) -> list[Piece]:
    if stored.kind == "packed":
        return unpack(content, offset=stored.offset)
    return [Piece(offset=stored.offset, at=stored.first_at, content=content)]


def _make_gap(stored: Stored, cause: str) -> Gap:
    return Gap(offset=stored.offset, since=stored.first_at, until=stored.last_at, cause=cause)
