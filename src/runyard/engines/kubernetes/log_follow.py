"""Follows the output of one container instance: chunks, gaps, and whether the rest may be readable later."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

from runyard.app.engine import EngineRefusal, EngineUnavailable, LogChunk, LogGap, LogSource
from runyard.domain.reasons import Reason
from runyard.engines.kubernetes.log_gaps import (
    END,
    Cause,
    explain_removal,
    from_nanoseconds,
    make_gap,
    parse_time,
)
from runyard.engines.kubernetes.log_sources import (
    can_never_start,
    find_span,
    has_ended,
    is_end_doubtful,
    is_never_restarted,
    is_replaced_twice,
    is_running,
    is_start_awaited,
    may_have_gone_on,
    to_instance_object,
)
from runyard.engines.kubernetes.pod_cache import PodCache
from runyard.engines.kubernetes.run_objects import GonePod
from runyard.engines.kubernetes.views import JobView, PodView, read_view
from runyard.kube import Client, DeadlineExceeded, Disconnected, KubeError, NotFound, Object
from runyard.kube.resources import PODS
from runyard.kube.streams import (
    ContainerUnspecified,
    ContainerWaiting,
    LogBlock,
    LogFollow,
    LogPosition,
    LogsRotated,
    LogsUnavailable,
    LogsUnconfirmed,
    UnknownContainer,
    follow_logs,
)
from runyard.manifests.metadata import to_label_value

DEADLINE_SECONDS = 10.0
"""How long a request may take until its answer begins."""
QUICK_RETRIES = 3
"""How often in a row a follow that broke is resumed at once. After that the Core waits, with backoff."""
FIRST_RETRY_SECONDS = 0.2
LIVED_SECONDS = 10.0
"""A connection that lasted this long is not one of several failures in a row."""
TOMBSTONE_SECONDS = 10.0
"""How long the final state of a deleted pod is waited for: the watch may lag behind the apiserver's answers, and
what it brought is taken in a moment later."""
TOMBSTONE_POLL_SECONDS = 0.05
EARLY_SECONDS = 3.0
"""A line that was written so soon after the start of its container is taken for the first of its log, unless the log is
a flood."""
EARLY_FLOOD_SECONDS = 1.5
"""The same for a flood: only a flood is large enough to be rotated so soon. The start is known to the second."""
FLOOD_BYTES = 32 * 1024
FLOOD_BYTES_PER_SECOND = 1 << 20
"""A log is a flood if so much comes in its first block, which was written at such a rate."""
SKEW_SECONDS = 2.0
"""How far the clocks of server and node may differ."""

LONGEST_TURN_SECONDS = 0.25
"""How long a log that is a flood pauses at most, after each block."""

Item = LogChunk | LogGap


class SourceFollow:
    """One reading of an output from a position on. `run` it once."""

    def __init__(
        self,
        client: Client,
        cache: PodCache,
        source: LogSource,
        *,
        position: LogPosition | None,
        is_given_up: Callable[[], bool],
        on_read: Callable[[], None],
    ) -> None:
        self._client = client
        self._cache = cache
        self._source = source
        self._position = position
        self._is_given_up = is_given_up
        """Whether the log of an ended instance that its node does not give is believed to be removed."""
        self._on_read = on_read
        """Is told that the node gives the log again, also if nothing in it is new."""
        self._cut: LogChunk | None = None
        """What the follow that failed has read of a line."""
        self._was_seen = False
        """Whether the pod existed when reading began. Then its final state comes; else it may have gone long ago."""

    async def run(self) -> AsyncGenerator[Item, None]:
        """The output; raises `EngineUnavailable` if the rest may be readable later."""
        pod = self._find_pod()
        self._was_seen = pod is not None
        if pod is None or (self._position is None and is_replaced_twice(pod, self._source)):
            yield self._make_gap(Cause.RESTARTED) if pod is not None else await self._explain_missing(Cause.DELETED)
            return
        failures, clock = 0, asyncio.get_running_loop().time
        while True:
            began_at = clock()
            try:
                async with aclosing(self._read(pod)) as items:
                    async for item in items:
                        failures = 0
                        yield item
            except LogsRotated as error:
                for item in self._list_last(self._make_gap(Cause.ROTATED, error, position=str(self._position))):
                    yield item
                continue
            except (LogsUnavailable, NotFound, ContainerWaiting) as error:
                for item in self._list_last(await self._end(error, pod)):
                    yield item
                return
            except Disconnected as error:
                failures = 1 if clock() - began_at >= LIVED_SECONDS else failures + 1
                if failures > QUICK_RETRIES:
                    raise _unavailable(error) from error
            except KubeError as error:
                raise self._translate(error) from error
            else:
                return
            await asyncio.sleep(FIRST_RETRY_SECONDS * 2 ** (failures - 1))

    async def _read(self, pod: PodView) -> AsyncGenerator[Item, None]:
        """The items of one follow."""
        attached_at, self._cut = datetime.now(UTC), None
        async with follow_logs(
            self._client,
            pod.metadata.name,
            namespace=pod.metadata.namespace,
            uid=pod.metadata.uid,
            container=self._source.container,
            instance=self._source.instance,
            after=self._position,
            deadline_seconds=DEADLINE_SECONDS,
            find_pod=self._find_object if is_never_restarted(pod, self._source) else None,
        ) as log:
            is_first, cut, turns = self._position is None, None, _Turns()
            try:
                async for block in log.iter_blocks():
                    if block.is_cut:
                        cut = _take_cut(block, log.position)
                        continue
                    if block.skipped_since_ns is not None:
                        yield self._make_skip(log, block)
                    if is_first and (gap := self._find_late_start(log, block, attached_at)) is not None:
                        yield gap
                    is_first = False
                    yield LogChunk(content=block.content, at=block.written_at, position=str(log.position))
                    await turns.give_up(len(block.content))
            finally:
                self._position, self._cut = log.position, cut
                if log.was_read:
                    self._on_read()
            if cut is not None:
                # The program ended without a newline.
                yield cut

    def _find_late_start(self, log: LogFollow, block: LogBlock, attached_at: datetime) -> LogGap | None:
        """A gap before the first line, if there may have been lines before it that were rotated away.

        Nothing tells a rotated log from one that begins there. So a log is suspicious if it was first read late, and
        its first line was written long after its container had started.
        """
        instance, position = log.instance, log.position
        first = block.split()[0]
        started_at = from_nanoseconds(instance.started_ns if instance is not None else None)
        if started_at is None or position is None:
            return None
        is_late = (attached_at - first.written_at).total_seconds() > SKEW_SECONDS
        early_seconds = EARLY_FLOOD_SECONDS if _is_flood(block, first.written_ns) else EARLY_SECONDS
        if not is_late or (first.written_at - started_at).total_seconds() <= early_seconds:
            return None
        begin = LogPosition(first.written_ns, 0, position.container_id, position.restart_count)
        return make_gap(
            Cause.MAYBE_ROTATED, since=started_at, until=first.written_at, now=attached_at, position=str(begin)
        )

    def _make_skip(self, log: LogFollow, block: LogBlock) -> LogGap:
        """A gap before a block, where the node may have skipped a file that it had rotated."""
        return make_gap(
            Cause.MAYBE_SKIPPED,
            since=from_nanoseconds(block.skipped_since_ns),
            until=block.split()[0].written_at,
            now=datetime.now(UTC),
            # Behind the line before: if it is still there when reading is resumed, nothing was skipped.
            position=str(log.block_position),
        )

    def _list_last(self, gap: LogGap | None) -> list[Item]:
        """What is given out before reading ends, or goes on behind a gap.

        No more of the line that was cut can be read. A rotation cuts a line in two, and the rest is a line of its own.
        """
        return [item for item in (self._cut, gap) if item is not None]

    async def _end(self, error: LogsUnavailable | NotFound | ContainerWaiting, followed: PodView) -> LogGap | None:
        """The gap that ends an output which cannot be read anymore; raises `EngineUnavailable` if it may be again.

        None: all of it was read. `followed` is the pod as it was when reading began.
        """
        if isinstance(error, ContainerWaiting):
            return self._end_waiting(error)
        if isinstance(error, LogsUnconfirmed):
            return await self._end_unconfirmed(error, followed)
        gap = error.gap if isinstance(error, LogsUnavailable) else None
        if gap is not None and gap.cause == "restarted":
            return self._make_gap(Cause.RESTARTED, error)
        # A 404 is also the answer if only the node is not registered. It may come back, with the log.
        is_missing = gap is None or gap.cause == "pod deleted"
        pod = await self._find_live_pod(followed) if is_missing else self._find_pod()
        if pod is None:
            return await self._explain_missing(Cause.DELETED, error)
        return self._end_removed(pod, error)

    def _end_removed(self, pod: PodView, error: KubeError) -> LogGap:
        """The gap of an output that a node does not give, of a pod that exists; `EngineUnavailable` while it may yet.

        A node whose container runtime restarts says the same as one that has removed the log. So only the log of an
        instance that has ended is given up: one that runs will print more, also if its pod is being deleted.
        """
        is_over = has_ended(pod, self._source) or (can_never_start(pod) and not is_running(pod, self._source))
        if not is_over or is_start_awaited(pod, self._source) or (_is_kept(pod) and not self._is_given_up()):
            raise _unavailable(error) from error
        return self._make_gap(_explain_lack(pod), error)

    async def _end_unconfirmed(self, error: LogsUnconfirmed, followed: PodView) -> LogGap | None:
        """The gap behind a follow that the server ended as if all was read, and whose end cannot be confirmed.

        None if the follow was there when the instance ended. A kubelet that dies ends it before that, and on a lost
        node nobody can tell when.
        """
        cause = None if error.gap is None else error.gap.cause
        live = await self._find_live_pod(followed)
        if live is not None and cause in ("log removed", "pod deleted") and _is_kept(live):
            return self._end_removed(live, error)
        gone = None if live is not None else await self._find_gone()
        pod = live if gone is None else gone.pod
        is_last_state = gone is None or gone.is_final
        is_over = pod is not None and is_last_state and has_ended(pod, self._source)
        if pod is not None and is_over and not is_end_doubtful(pod, self._source):
            # If the end of the instance is not known, this is a later one: that of its pod.
            _, finished_at = find_span(pod, self._source)
            if finished_at is not None and is_read_to_end(error, finished_at):
                return None
        if live is None or live.metadata.deleted_at:
            return self._make_gap(explain_removal(pod, Cause.UNCONFIRMED), error)
        is_replaced = is_replaced_twice(live, self._source)
        return self._make_gap(explain_removal(live, Cause.RESTARTED if is_replaced else Cause.REMOVED), error)

    def _end_waiting(self, error: ContainerWaiting) -> LogGap:
        """The gap of an output whose node has forgotten its container; `EngineUnavailable` if it may be started yet."""
        pod = self._find_pod()
        if pod is None or not can_never_start(pod):
            raise _unavailable(error) from error
        return self._make_gap(_explain_lack(pod), error)

    async def _explain_missing(self, cause: Cause, error: Exception | None = None) -> LogGap:
        """The gap of an output whose pod is gone."""
        gone = await self._find_gone()
        return self._make_gap(explain_removal(None if gone is None else gone.pod, cause), error)

    def _translate(self, error: KubeError) -> EngineUnavailable | EngineRefusal:
        if isinstance(error, UnknownContainer | ContainerUnspecified):
            return EngineRefusal(Reason.ENGINE_FAILED, f"the log cannot be read: {error}")
        return _unavailable(error)

    def _find_pod(self) -> PodView | None:
        pods = self._cache.list_pods(self._source.run_uid)
        return next((pod for pod in pods if pod.metadata.name == self._source.pod), None)

    async def _find_live_pod(self, pod: PodView) -> PodView | None:
        """The pod as the apiserver has it: the watch may be later than the node."""
        name, namespace = pod.metadata.name, pod.metadata.namespace
        try:
            found = await self._client.get(PODS, name, namespace=namespace, deadline_seconds=DEADLINE_SECONDS)
            live = read_view(PodView, found)
        except NotFound:
            return None
        except KubeError as error:
            raise _unavailable(error) from error
        return live if live.metadata.uid == pod.metadata.uid else None

    def _find_object(self) -> Object | None:
        """The pod as the watch shows it; None if it does not."""
        pod = self._find_pod()
        return None if pod is None else to_instance_object(pod, self._source.container)

    async def _find_gone(self) -> GonePod | None:
        """The last state of the pod, which is gone; waits for it for a moment."""
        clock = asyncio.get_running_loop().time
        ends_at = clock() + TOMBSTONE_SECONDS
        while True:
            pods = self._cache.list_gone_pods(self._source.run_uid)
            found = next((gone for gone in pods if gone.pod.metadata.name == self._source.pod), None)
            if found is not None or not self._was_seen or clock() >= ends_at:
                return found
            await asyncio.sleep(TOMBSTONE_POLL_SECONDS)

    def _make_gap(self, cause: Cause, error: Exception | None = None, *, position: str = END) -> LogGap:
        """A gap from what was read last to where the output goes on or ended, as far as it is known."""
        found = error.gap if isinstance(error, LogsUnavailable) else None
        since, until = (None, None) if found is None else (found.since_ns, found.until_ns)
        gone = (one.pod for one in self._cache.list_gone_pods(self._source.run_uid))
        pod = self._find_pod() or next((one for one in gone if one.metadata.name == self._source.pod), None)
        began, ended = find_run_span(self._cache, self._source.run_uid) if pod is None else find_span(pod, self._source)
        if since is None and self._position is not None and self._position.written_ns:
            since = self._position.written_ns
        now, began = datetime.now(UTC), began if pod is not None else self._source.since or began
        begin, end = from_nanoseconds(since) or began, from_nanoseconds(until) or ended
        if self._position is None and begin is not None and began is not None:
            begin = max(begin, began)  # a container that could not be started began in 1970
        if position == END and pod is not None and may_have_gone_on(pod, self._source):
            # One that was removed by force is gone without a time.
            removed_at = parse_time(pod.metadata.deleted_at) or (now if self._find_pod() is None else None)
            end = end if removed_at is None else max(end or removed_at, min(removed_at, now))
        return make_gap(cause, since=begin, until=end, now=now, position=position)


class _Turns:
    """Lets a flood leave as much time to others as it has taken itself: all logs share one event loop."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._since = self._clock()

    async def give_up(self, size: int) -> None:
        """Pause after a block, if it was a large one."""
        if size >= FLOOD_BYTES:
            await asyncio.sleep(min(self._clock() - self._since, LONGEST_TURN_SECONDS))
        self._since = self._clock()


def find_run_span(cache: PodCache, run_uid: str) -> tuple[datetime | None, datetime | None]:
    """The span of a pod that nobody saw: it lived while its anchor did, which may be gone too."""
    objects = cache.find(run_uid)
    anchor = cache.find_gone_anchor(to_label_value(run_uid)) if objects is None else objects.anchor
    if anchor is None:
        return None, None
    if not isinstance(anchor, JobView):
        return parse_time(anchor.metadata.created_at), None
    # The controller may have begun the Job once more, after its first pod: `startTime` is when it last did.
    return parse_time(anchor.metadata.created_at), parse_time(anchor.status.completed_at)


def is_read_to_end(error: LogsUnconfirmed, finished_at: datetime) -> bool:
    """Whether a follow whose end was not confirmed was there when the instance ended, and had read all before.

    `finished_at` is by the node's clock, and rounded down to a second. A follow that is late reads a rotated file to
    its end and no further, if the instance has ended by then.
    """
    ended_at, late_at = from_nanoseconds(error.ended_ns), from_nanoseconds(error.late_ns)
    skew = timedelta(seconds=SKEW_SECONDS)
    if ended_at is None or finished_at > ended_at + skew:
        return False
    return late_at is None or late_at + skew < finished_at


def _is_kept(pod: PodView) -> bool:
    """Whether the node keeps the logs of the pod: it is not deleted, and nothing has removed it from its node."""
    return not pod.metadata.deleted_at and explain_removal(pod, Cause.REMOVED) is Cause.REMOVED


def _explain_lack(pod: PodView) -> Cause:
    """Why a node does not give the log of a pod that exists."""
    return explain_removal(pod, Cause.DELETED if pod.metadata.deleted_at else Cause.REMOVED)


def _is_flood(block: LogBlock, first_ns: int) -> bool:
    """Whether the first block of a log shows that its program writes as fast as it can."""
    seconds = max(1, block.written_ns - first_ns) / 1_000_000_000
    return len(block.content) >= FLOOD_BYTES and len(block.content) / seconds >= FLOOD_BYTES_PER_SECOND


def _take_cut(cut: LogBlock, position: LogPosition | None) -> LogChunk:
    """A line without an end, which is all that can be read of it."""
    position = position or LogPosition(0, 0)
    return LogChunk(content=cut.content, at=cut.written_at, position=str(position.behind(cut)))


def _unavailable(error: KubeError) -> EngineUnavailable:
    reason = Reason.ENGINE_TIMEOUT if isinstance(error, DeadlineExceeded) else Reason.ENGINE_FAILED
    return EngineUnavailable(reason, f"the log cannot be read now: {error}")
