"""The log collector: follows the outputs of runs at the engine and stores them, each byte once.

The positions are stored with the bytes, so that a collector continues where the last one was, after a crash too. Two
replicas that follow the same output do no harm: the log store skips what it has.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime

from runyard.app.core import Core
from runyard.app.engine import (
    LONGEST_NAME_BYTES,
    Anchor,
    Engine,
    EngineError,
    EngineRefusal,
    LogChunk,
    LogGap,
    LogSource,
)
from runyard.app.engine_calls import call_engine
from runyard.app.event_waits import wait_at_most
from runyard.app.log_store import Stream, StreamInfo
from runyard.app.loops.followed_logs import FairQueue, FollowedRun, FollowedSource, to_stream
from runyard.app.loops.log_writer import LIMIT, MAX_LOG_BYTES, LogWriter
from runyard.app.lru_map import LruMap
from runyard.app.ports import Stale, Unavailable
from runyard.domain.lifecycle import GONE

MOST_FOLLOWED = 1000
"""How many outputs are followed at the same time. Others wait for a slot."""
TURN_SECONDS = 10.0
"""After that long an output may have to give up its slot, if others wait; first those that were silent as long."""
TURNS_PER_SECOND = 25
"""How many outputs give up their slots for others. Each costs a connection: 4 ms of CPU time on Kubernetes."""
READ_SECONDS = 30.0
"""How long the outputs of a run are followed before others after somebody read its log. Clients that follow it say so
again before that (`log_follower.SAY_SECONDS`)."""
MOST_SOURCES = 1000
"""How many outputs of a run are stored; a container that restarts again and again has many."""
MOST_LISTED_AT_ONCE = 16
"""For how many runs the engine is asked at the same time which outputs there are."""
MOST_FORGOTTEN = 10_000
"""How many deleted runs are remembered, whose late reports are ignored."""
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 60.0
TICK_SECONDS = 1.0
SHARD_SECONDS = 30.0
"""How often outputs of runs that belong to another replica now are given up."""
LOST = "lost"
"""The cause of a stream whose rest the engine does not know anymore."""
NOTHING_MORE = f"{LOST}: the engine has no more of this output"

_log = logging.getLogger(__name__)


class LogCollector:
    """One replica's collector. Belongs to one event loop; nothing starts before the first `attend` or `drain`."""

    def __init__(
        self,
        core: Core,
        engine: Engine,
        *,
        owns: Callable[[str], bool] = lambda _run_uid: True,
        max_bytes: int = MAX_LOG_BYTES,
        most_followed: int = MOST_FOLLOWED,
    ) -> None:
        self._core = core
        self._engine = engine
        self._owns = owns
        self._writer = LogWriter(core, max_bytes=max_bytes)
        self._most_followed = most_followed
        self._runs: dict[str, FollowedRun] = {}
        self._queue = FairQueue()
        self._read_runs: dict[str, FollowedRun] = {}
        """Runs whose log somebody reads, by uid. Together they have half of the slots at most."""
        self._followed: dict[FollowedSource, None] = {}
        """Those that have a slot, the longest first."""
        self._unlisted: dict[str, Anchor] = {}
        self._listing: set[asyncio.Task[None]] = set()
        self._list_failures: dict[str, int] = {}
        self._forgotten: LruMap[str, None] = LruMap(most=MOST_FORGOTTEN)
        self._is_closed = False

    def attend(self, anchor: Anchor) -> None:
        """Follow the outputs of a run that are not complete. Idempotent; returns at once.

        Call it whenever an observation of the run has changed, and for all active runs after a start. Runs of other
        replicas and deleted runs are ignored.
        """
        uid = anchor.run_uid
        if self._is_closed or uid in self._forgotten or not self._owns(uid):
            return
        self._unlisted[uid] = anchor
        if len(self._listing) < MOST_LISTED_AT_ONCE:
            task = asyncio.create_task(self._work_off_lists())
            self._listing.add(task)
            task.add_done_callback(self._listing.discard)

    async def drain(
        self,
        anchor: Anchor,
        *,
        seconds: float,
        lost_since: datetime | None = None,
        ended: Sequence[LogSource] = (),
    ) -> bool:
        """Whether everything that the engine lists is stored and complete; waits at most so long for it.

        For a run that has ended. A stream whose rest the engine does not know anymore gets a gap, and is finished. So
        does each of the `ended` outputs of which nothing is stored, and whose pod the engine does not know anymore: it
        knows less than the run if it was opened after the pod was gone. With `lost_since`, the run is lost: if nothing
        of it is stored or listed, a gap since then says so.
        """
        try:
            async with asyncio.timeout(seconds):
                run = await self._list(anchor, has_ended=True, lost_since=lost_since, ended=ended)
                while run is not None and run.sources:
                    await self._wait_for_news(run)
                return anchor.run_uid not in self._forgotten
        except (TimeoutError, EngineError, Unavailable):
            return False

    async def forget(self, run_uid: str) -> None:
        """Stop following a run that is being deleted. Nothing is appended to its log after this has returned."""
        self._forgotten.put(run_uid, None)
        await self._give_up(run_uid)

    async def run(self) -> None:
        """Until it is cancelled: let outputs take turns, and give up runs that belong to another replica now."""
        self._is_closed = False
        self._core.signals.collected.update(self._runs)
        self._fill_slots()
        clock = asyncio.get_running_loop().time
        checked_at = turned_at = clock()
        try:
            while True:
                await wait_at_most(self._core.signals.log_reads, TICK_SECONDS)
                self._attend_to_readers(clock())
                if clock() - turned_at >= TICK_SECONDS:
                    turned_at = clock()
                    self._take_turns(turned_at)
                if clock() - checked_at >= SHARD_SECONDS:
                    checked_at = clock()
                    await self._give_up_others()
        finally:
            await self.close()

    async def close(self) -> None:
        """Stop following; writes in progress are completed. What is stored says where to continue. Idempotent."""
        self._is_closed = True
        self._core.signals.collected.clear()
        for task in self._listing:
            task.cancel()
        following = [one.task for one in self._followed if one.task is not None]
        for one in self._followed:
            one.stop()
        await asyncio.gather(*self._listing, *following, return_exceptions=True)

    async def _work_off_lists(self) -> None:
        while self._unlisted:
            uid = next(iter(self._unlisted))
            anchor = self._unlisted.pop(uid)
            try:
                await self._list(anchor)
            except Exception as error:  # noqa: BLE001 - whatever it is: the outputs of other runs are listed
                self._list_later(anchor, error)
            else:
                self._list_failures.pop(uid, None)

    async def _list(
        self,
        anchor: Anchor,
        *,
        has_ended: bool = False,
        lost_since: datetime | None = None,
        ended: Sequence[LogSource] = (),
    ) -> FollowedRun | None:
        """Find the run's outputs and queue those that are not complete; None if there are none."""
        listed = await call_engine(self._engine.list_log_sources(anchor))
        uid = anchor.run_uid
        listed = [source for source in listed if source.run_uid == uid and _is_storable(source)]
        run = self._runs.get(uid)
        if not has_ended and run is not None and all(one in run.sources or one in run.done for one in listed):
            return run
        infos = {info.stream: info for info in await self._core.logs.list_streams(uid)}
        chosen = await self._choose(anchor, _leave_out_stored(listed, infos), infos)
        if has_ended:
            await self._finish_lost(anchor, listed, infos, ended)
        if lost_since is not None and not listed and not infos and not ended:
            source = LogSource(run_uid=uid, pod=LOST, container=LOST)
            cause = f"{LOST}: the objects of the run are gone, and nothing of its output was read"
            await self._cut(anchor, source, None, cause=cause, name=LOST, since=lost_since)
        if uid in self._forgotten:
            return None
        return self._admit(anchor, listed, chosen=set(chosen), infos=infos)

    def _admit(
        self, anchor: Anchor, listed: Sequence[LogSource], *, chosen: set[LogSource], infos: Mapping[Stream, StreamInfo]
    ) -> FollowedRun | None:
        run = self._runs.setdefault(anchor.run_uid, FollowedRun(anchor))
        self._core.signals.collected.add(anchor.run_uid)
        run.stored_bytes = max(run.stored_bytes, sum(info.size for info in infos.values()))
        for source in listed:
            info = infos.get(to_stream(source))
            if source not in chosen or (info is not None and info.is_complete):
                run.complete(source)
            elif source not in run.sources and source not in run.done:
                self._queue.put(run.add(source, info))
        self._drop_if_complete(run)
        self._fill_slots()
        if run.is_urgent:
            self._make_room(self._queue.urgent)
        return self._runs.get(anchor.run_uid)

    async def _choose(
        self, anchor: Anchor, listed: Sequence[LogSource], infos: Mapping[Stream, StreamInfo]
    ) -> Sequence[LogSource]:
        """Those that are stored or may be: at most `MOST_SOURCES`, of the others the newest.

        The newest one that is left out gets a stream with nothing but a gap, which says so.
        """
        known = [source for source in listed if to_stream(source) in infos]
        unknown = [source for source in listed if to_stream(source) not in infos]
        room = max(0, MOST_SOURCES - len(infos))
        cut = unknown[: len(unknown) - room]
        if cut and len(infos) <= MOST_SOURCES:
            cause = f"{LIMIT}: a run has at most {MOST_SOURCES} log streams; other outputs were not stored"
            await self._cut(anchor, cut[-1], None, cause=cause, name=LIMIT)
        return [*known, *unknown[len(cut) :]]

    async def _finish_lost(
        self,
        anchor: Anchor,
        listed: Sequence[LogSource],
        infos: Mapping[Stream, StreamInfo],
        ended: Sequence[LogSource],
    ) -> None:
        """Finish with a gap: streams whose rest the engine does not know anymore, and `ended` ones without a stream."""
        run = self._runs.get(anchor.run_uid)
        sources = (*listed, *(run.sources if run is not None else ()))
        known, known_pods = {to_stream(source) for source in sources}, {source.pod for source in sources}
        for source in ended:
            if to_stream(source) not in infos and source.pod not in known_pods:
                await self._cut(anchor, source, None, cause=NOTHING_MORE, name=LOST, since=source.since)
        for info in infos.values():
            stream = info.stream
            if stream not in known and not info.is_complete:
                source = LogSource(
                    run_uid=stream.run_uid, pod=stream.pod, container=stream.container, instance=stream.instance
                )
                await self._cut(anchor, source, info, cause=NOTHING_MORE, name=LOST)

    async def _cut(
        self,
        anchor: Anchor,
        source: LogSource,
        info: StreamInfo | None,
        *,
        cause: str,
        name: str,
        since: datetime | None = None,
    ) -> None:
        if since is None:
            since = self._core.clock.now() if info is None or info.last_at is None else info.last_at
        one = FollowedRun(anchor).add(source, info)
        one.offset = one.size
        await self._writer.cut(one, since=since, cause=cause, name=name)

    def _list_later(self, anchor: Anchor, error: Exception) -> None:
        uid = anchor.run_uid
        failures = self._list_failures[uid] = self._list_failures.get(uid, 0) + 1
        if failures == 1:
            _log.warning("the log sources of a run cannot be listed: %s", error, extra={"run_uid": uid})
        asyncio.get_running_loop().call_later(_choose_pause(failures), self.attend, anchor)

    def _fill_slots(self) -> None:
        while not self._is_closed and len(self._followed) < self._most_followed:
            one = self._queue.take()
            if one is None:
                return
            one.since = asyncio.get_running_loop().time()
            one.is_stopping = one.can_be_cancelled = False
            self._followed[one] = None
            one.task = asyncio.create_task(self._follow(one))

    async def _follow(self, one: FollowedSource) -> None:
        """Follow an output while it has its slot."""
        is_complete, pause = False, 0.0
        try:
            is_complete = await self._follow_once(one)
        except asyncio.CancelledError:
            if not one.is_stopping:
                self._is_closed = True  # the event loop is being closed: nothing new may be started
                raise
        except Exception as error:  # noqa: BLE001 - whatever it is: the output is tried again, the others go on
            pause = self._note_failure(one, error)
        finally:
            one.task = None
            self._followed.pop(one, None)
            self._put_back(one, is_complete=is_complete, pause=pause)
            self._fill_slots()

    async def _follow_once(self, one: FollowedSource) -> bool:
        """Store what comes, until the output is complete or the slot is to be given up."""
        try:
            async with aclosing(self._read(one)) as items:
                async for item in items:
                    is_complete = await self._write(one, item)
                    one.heard_at = asyncio.get_running_loop().time()
                    del item  # its bytes are not kept while it waits for the next one
                    if is_complete:
                        return True
            if one.is_stopping:
                return False
        except EngineRefusal as error:
            # It can never be read. A gap says so; otherwise the run would never be settled.
            await self._writer.cut(one, since=self._core.clock.now(), cause=str(error), name=error.code)
            return True
        await self._writer.finish(one, cause=None)
        return True

    async def _read(self, one: FollowedSource) -> AsyncGenerator[LogChunk | LogGap]:
        """The items of the engine, until they end or the slot is to be given up.

        The task may be cancelled while it waits for the next item: it would be read again.
        """
        items = self._engine.follow_log(one.source, after=one.position)
        try:
            while not one.is_stopping:
                one.can_be_cancelled = True
                try:
                    item = await anext(items)
                except StopAsyncIteration:
                    return
                finally:
                    one.can_be_cancelled = False
                yield item
                del item
        finally:
            if isinstance(items, AsyncGenerator):
                await items.aclose()

    async def _write(self, one: FollowedSource, item: LogChunk | LogGap) -> bool:
        try:
            return await self._writer.write(one, item)
        except (Stale, ValueError):
            infos = await self._core.logs.list_streams(one.source.run_uid)
            info = next((info for info in infos if info.stream == one.stream), None)
            if info is not None and info.is_complete:
                return True
            if info is not None:
                # Another replica has written: continue after that.
                one.adopt(info)
                raise
        return await self._begin_anew(one, item)

    async def _begin_anew(self, one: FollowedSource, item: LogChunk | LogGap) -> bool:
        """Write to a stream that was deleted: by retention; or with its run, which is not followed anymore then."""
        uid = one.source.run_uid
        async with self._core.store.begin(is_read_only=True) as unit:
            run = await unit.runs.find_by_uid(uid)
        if run is None or run.state in GONE:
            self._forgotten.put(uid, None)
            one.is_stopping = True
            return False
        one.stored_position, one.offset, one.size = None, 0, 0
        one.run.stored_bytes = sum(info.size for info in await self._core.logs.list_streams(uid))
        return await self._writer.write(one, item)

    def _note_failure(self, one: FollowedSource, error: Exception) -> float:
        one.failures += 1
        if one.failures == 1 and not isinstance(error, Stale):
            extra = {"run_uid": one.source.run_uid, "stream": one.stream.name, "error": str(error)}
            _log.warning("a log cannot be read now", extra=extra)
        return _choose_pause(one.failures)

    def _put_back(self, one: FollowedSource, *, is_complete: bool, pause: float) -> None:
        run = one.run
        if run.anchor.run_uid in self._forgotten:
            run.sources.clear()
            self._drop_if_complete(run)
        if self._runs.get(run.anchor.run_uid) is not run or one.source not in run.sources:
            return
        if is_complete:
            run.complete(one.source)
            self._drop_if_complete(run)
        elif pause:
            asyncio.get_running_loop().call_later(pause, self._try_again, one)
        else:
            self._queue.put(one)

    def _try_again(self, one: FollowedSource) -> None:
        if self._runs.get(one.source.run_uid) is one.run and one.source in one.run.sources:
            self._queue.put(one)
            self._fill_slots()
            if one.run.is_urgent:
                self._make_room(self._queue.urgent)

    def _drop_if_complete(self, run: FollowedRun) -> None:
        """Forget runs about which there is nothing to do. They are listed again if they are attended to again."""
        if not run.sources and not run.waiters and self._runs.get(run.anchor.run_uid) is run:
            del self._runs[run.anchor.run_uid]
            self._read_runs.pop(run.anchor.run_uid, None)
            self._core.signals.collected.discard(run.anchor.run_uid)

    def _attend_to_readers(self, now: float) -> None:
        """Follow the outputs of runs whose logs are read before others; those that were read first have the room."""
        asked, before = self._core.signals.take_log_reads(), self._read_runs
        self._read_runs, room = {}, self._most_followed // 2
        for uid in (*before, *(asked - before.keys())):
            run = self._runs.get(uid)
            if run is None:
                continue
            read_at = now if uid in asked else run.read_at
            is_late = read_at is None or now - read_at >= READ_SECONDS
            if is_late or len(run.sources) > room:
                run.read_at = None
                continue
            run.read_at, self._read_runs[uid], room = read_at, run, room - len(run.sources)
            self._queue.promote(uid)
        if self._queue.urgent:
            self._make_room(self._queue.urgent)

    async def _wait_for_news(self, run: FollowedRun) -> None:
        """Wait until one of the run's outputs is complete; they are followed before others."""
        news = asyncio.Event()
        run.waiters.add(news)
        self._queue.promote(run.anchor.run_uid)
        self._make_room(self._queue.urgent)
        try:
            await news.wait()
        finally:
            run.waiters.discard(news)
            self._drop_if_complete(run)

    def _make_room(self, wanted: int) -> None:
        """Let outputs that only wait give up their slots for urgent ones."""
        wanted -= self._most_followed - len(self._followed) + sum(one.is_stopping for one in self._followed)
        for one in list(self._followed):
            if wanted <= 0:
                return
            if one.can_be_cancelled and not one.is_stopping and not one.run.is_urgent:
                one.stop()
                wanted -= 1

    def _take_turns(self, now: float) -> None:
        """Let outputs that had their turn give up their slots, as many as others wait. Those that are read keep on.

        Silent ones go first: one that prints loses lines if its log is rotated before its next turn.
        """
        most = min(len(self._queue), max(1, round(TURNS_PER_SECOND * TICK_SECONDS)))
        silent: list[FollowedSource] = []
        others: list[FollowedSource] = []
        for one in self._followed if most else ():
            if one.since is None or now - one.since < TURN_SECONDS:
                break
            if one.run.read_at is not None:
                continue
            if not one.is_stopping:
                (silent if now - one.heard_at >= TURN_SECONDS else others).append(one)
        for one in (*silent, *others)[:most]:
            one.stop()

    async def _give_up_others(self) -> None:
        for number, uid in enumerate(list(self._runs), start=1):
            run = self._runs.get(uid)
            if run is not None and not run.waiters and not self._owns(uid):
                await self._give_up(uid)
            if number % 1000 == 0:
                await asyncio.sleep(0)

    async def _give_up(self, run_uid: str) -> None:
        self._unlisted.pop(run_uid, None)
        self._list_failures.pop(run_uid, None)
        self._queue.discard(run_uid)
        run = self._runs.pop(run_uid, None)
        self._read_runs.pop(run_uid, None)
        self._core.signals.collected.discard(run_uid)
        if run is None:
            return
        tasks = [one.task for one in run.sources.values() if one.task is not None]
        for one in run.sources.values():
            one.stop()
        run.sources.clear()
        for waiter in run.waiters:
            waiter.set()
        await asyncio.gather(*tasks, return_exceptions=True)


def _is_storable(source: LogSource) -> bool:
    """Whether the names of an output are any that a cluster may give; others could never be stored, nor settled."""
    names = (source.pod, source.container)
    return all(0 < len(name) <= LONGEST_NAME_BYTES and name.isascii() for name in names) and source.instance >= 0


def _leave_out_stored(listed: Sequence[LogSource], infos: Iterable[Stream]) -> Sequence[LogSource]:
    """The outputs without those that stand for a pod which is stored: the engine saw it before it was restarted."""
    unseen = [source for source in listed if source.is_unseen]
    if not unseen:
        return listed
    listed_pods = {source.pod for source in listed}
    stored = len({stream.pod for stream in infos} - listed_pods)
    return [*unseen[: max(0, len(unseen) - stored)], *(source for source in listed if not source.is_unseen)]


def _choose_pause(failures: int) -> float:
    """Exponential backoff with jitter."""
    ceiling: float = min(FIRST_PAUSE_SECONDS * 2 ** min(failures - 1, 16), LONGEST_PAUSE_SECONDS)
    return ceiling * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
