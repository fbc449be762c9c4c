"""Runs of the in-memory engine, a real log store with faults, and collectors that live and die."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, cast

from runyard.app.core import Core
from runyard.app.engine import Anchor, Engine, LogSource
from runyard.app.log_store import LogPiece, LogStore, Stream, StreamInfo
from runyard.app.loops import LogCollector
from runyard.app.ports import Store, Unavailable
from runyard.app.vault import Vault
from tests.engines.memory import MemoryEngine
from tests.engines.memory_objects import Output

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


class StandingClock:
    """Always the same time."""

    def now(self) -> datetime:
        return NOW


class ShakyLogs:
    """A log store that fails when it is told to: before an act, or after it (its answer is lost)."""

    def __init__(self, logs: LogStore) -> None:
        self._logs = logs
        self.calls: Counter[str] = Counter()
        self.fails_before: Callable[[str, str], bool] = lambda _act, _run: False
        self.fails_after: Callable[[str, str], bool] = lambda _act, _run: False
        self.held: asyncio.Event | None = None
        """Appends wait for it, if there is one."""
        self.waiting = 0
        """How many appends wait for it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logs, name)

    async def list_streams(self, run_uid: str) -> Sequence[StreamInfo]:
        infos: Sequence[StreamInfo] = await self._do("list_streams", run_uid, lambda: self._logs.list_streams(run_uid))
        return infos

    async def append(self, stream: Stream, content: bytes, **options: Any) -> int:
        if self.held is not None:
            self.waiting += 1
            await self.held.wait()
            self.waiting -= 1
        size: int = await self._do("append", stream.run_uid, lambda: self._logs.append(stream, content, **options))
        return size

    async def mark_gap(self, stream: Stream, **options: Any) -> int:
        return await self._do(  # type: ignore[no-any-return]
            "mark_gap", stream.run_uid, lambda: self._logs.mark_gap(stream, **options)
        )

    async def finish(self, stream: Stream, **options: Any) -> None:
        await self._do("finish", stream.run_uid, lambda: self._logs.finish(stream, **options))

    async def _do(self, act: str, run_uid: str, work: Callable[[], Awaitable[Any]]) -> Any:
        self.calls[act] += 1
        if self.fails_before(act, run_uid):
            raise Unavailable(f"{act} failed")
        answer = await work()
        if self.fails_after(act, run_uid):
            raise Unavailable(f"the answer to {act} was lost")
        return answer


class OutputEngine(MemoryEngine):
    """The in-memory engine with outputs that belong to no run of it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: defaultdict[str, dict[LogSource, None]] = defaultdict(dict)

    async def list_log_sources(self, anchor: Anchor) -> Sequence[LogSource]:
        """Those that tests have written."""
        await self._enter("list_log_sources")
        return [source for source in self.written[anchor.run_uid] if source in self.outputs]


class LogWorld:
    """One engine and one log store; collectors come and go."""

    def __init__(self, logs: LogStore, *, store: Store | None = None) -> None:
        self.engine = OutputEngine()
        self.logs = ShakyLogs(logs)
        self.core = Core(
            store=cast("Store", store),
            vault=cast("Vault", None),
            logs=cast("LogStore", self.logs),
            clock=StandingClock(),
        )

    @asynccontextmanager
    async def collect(self, **options: Any) -> AsyncIterator[LogCollector]:
        """A collector that runs until the end of the block; then it is cancelled like the server's."""
        collector = LogCollector(self.core, cast("Engine", self.engine), **options)
        loop = asyncio.create_task(collector.run())
        await asyncio.sleep(0)
        try:
            yield collector
        finally:
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)

    def write(self, source: LogSource, content: bytes = b"", *, is_ended: bool = False) -> None:
        """The container writes, or ends."""
        output = self.engine.outputs.setdefault(source, Output())
        self.engine.written[source.run_uid][source] = None
        output.content += content
        output.is_ended = output.is_ended or is_ended
        output.news.set()

    async def find(self, source: LogSource) -> StreamInfo | None:
        stream = to_stream(source)
        infos = await self.logs._logs.list_streams(source.run_uid)
        return next((info for info in infos if info.stream == stream), None)

    async def read(self, source: LogSource) -> bytes:
        return b"".join([piece.content for piece in await self.read_pieces(source)])

    async def read_gaps(self, source: LogSource) -> list[str]:
        return [piece.gap for piece in await self.read_pieces(source) if piece.gap is not None]

    async def read_pieces(self, source: LogSource) -> list[LogPiece]:
        return list(await self.logs._logs.read(to_stream(source), limit=1 << 30))

    async def wait_until(self, source: LogSource, *, size: int, seconds: float = 60.0) -> None:
        """Until so much of it is stored."""

        async def is_stored() -> bool:
            info = await self.find(source)
            return info is not None and info.size >= size

        await wait_for(is_stored, seconds=seconds)

    async def wait_until_held(self, appends: int) -> None:
        """Until so many appends wait."""

        async def is_held() -> bool:
            return self.logs.waiting == appends

        await wait_for(is_held)

    async def wait_until_complete(self, *sources: LogSource, seconds: float = 60.0) -> None:
        """Until all of them are complete."""

        async def is_complete() -> bool:
            infos = [await self.find(source) for source in sources]
            return all(info is not None and info.is_complete for info in infos)

        await wait_for(is_complete, seconds=seconds)


async def wait_for(condition: Callable[[], Awaitable[bool]], *, seconds: float = 60.0) -> None:
    """Until it is so."""
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 - the log store has no event
            await asyncio.sleep(0.005)


def make_source(run: str = "run-1", *, pod: str = "pod", instance: int = 0) -> LogSource:
    return LogSource(run_uid=run, pod=pod, container="main", instance=instance)


def make_anchor(run: str = "run-1") -> Anchor:
    return Anchor(run_uid=run, run_id=run, project="demo", action="job", uid=f"uid-{run}")


def to_stream(source: LogSource) -> Stream:
    return Stream(source.run_uid, source.pod, source.container, source.instance)
