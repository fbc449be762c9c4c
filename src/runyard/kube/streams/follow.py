"""Follows the log of one container instance from a position to its real end.

A follow that ends in order has not proved that the log has: when a kubelet dies, the apiserver ends the answers it was
passing on as if they were complete (measured on 1.36). So at the end the pod is asked whether the container ended too,
and the log is read once more from the last line. An answer that lacks that line, and holds no later one, may have been
ended in the same way: it is asked for again before the line counts as rotated away.

No answer says whose log it is. The kubelet gives the log of the instance that is the newest for it, and the pod's
status lags behind the kubelet. So an answer is known by its content: it holds the last line that was read. If nothing
was read yet, or that line is missing, the follower asks after the answer has begun:

- For the first instance it asks the kubelet for a previous one. If there is none, the answer was the first's.
- For a later one it asks for the pod. A kubelet waits ten seconds before a second restart; a status lags by far less.

A container that cannot restart (`restartPolicy: Never`) needs neither.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Self

import msgspec

from runyard.kube.backoff import Backoff
from runyard.kube.client import Client
from runyard.kube.errors import Disconnected, KubeError, NotFound, Stalled
from runyard.kube.objects import Object
from runyard.kube.streams.errors import (
    ContainerWaiting,
    GapCause,
    LogGap,
    LogsRotated,
    LogsUnavailable,
    LogsUnconfirmed,
    LogsUnwatched,
    PreviousNotFound,
)
from runyard.kube.streams.instances import ContainerInstance, can_restart, list_instances
from runyard.kube.streams.loglines import LogBlock, LogLine, LogPosition
from runyard.kube.streams.logs import LogRequest, get_pod, iter_answer, open_answer
from runyard.kube.streams.resumption import DISORDER_SECONDS, Resumption
from runyard.kube.streams.rotation import (
    SHORTEST_ROTATION_NS,
    SMALLEST_ROTATED_BYTES,
    Pause,
    SkipDetector,
    has_no_file_between,
    split_block,
)

_NANOSECONDS = 1_000_000_000
# How long a pod's status may lag behind its kubelet.
_SETTLE_SECONDS = 15.0
# Of a log from which more was read, the end is confirmed by its last lines: all of its last second may be much.
_SHORT_LOG_BYTES = 64 * 1024
_MOST_TAIL_LINES = 100
# Enough of a line for its timestamp.
_STAMP_BYTES = 64
# How often a log is read whose node cannot wait for new lines.
_UNWATCHED_SECONDS = 0.7
# How often an answer that may have been ended early is asked for again, and after how long.
_SHORT_ANSWERS = 3
_SHORT_ANSWER_SECONDS = (0.2, 2.0)


class LogFollow:
    """The lines of one container instance as they come. One task may iterate it, or what `iter_blocks` returns."""

    def __init__(self, follower: "_Follower", blocks: AsyncIterator[LogBlock]) -> None:
        self._follower = follower
        self._blocks = blocks
        self._lines: deque[LogLine] = deque()
        self._position: LogPosition | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LogLine:
        if not self._lines:
            block = await anext(self._blocks)
            self._lines.extend(block.split())
            self._position = self._follower.block_position
        line = self._lines.popleft()
        self._position = LogPosition.after(line, self._position)
        return line

    def iter_blocks(self) -> AsyncIterator[LogBlock]:
        """The lines that came together as one block: many times as fast as line by line."""
        return self._blocks

    @property
    def position(self) -> LogPosition | None:
        """Behind the last line that was given out, to go on from there; names the instance once it is known."""
        return self._position if self._lines else self._follower.position

    @property
    def block_position(self) -> LogPosition | None:
        """Before the block that was given out last."""
        return self._follower.block_position

    @property
    def instance(self) -> ContainerInstance | None:
        """The instance that is followed, as the pod's status showed it last; None until it is known."""
        return self._follower.instance

    @property
    def was_read(self) -> bool:
        """Whether the node has given the log, be it empty or known: not a message in its place."""
        return self._follower.was_read


@asynccontextmanager
async def follow_logs(
    client: Client,
    pod: str,
    *,
    namespace: str,
    uid: str | None = None,
    container: str | None = None,
    instance: int | None = None,
    after: LogPosition | None = None,
    since_ns: int | None = None,
    tail_lines: int | None = None,
    deadline_seconds: float = 30.0,
    read_deadline_seconds: float = 300.0,
    find_pod: Callable[[], Object | None] | None = None,
) -> AsyncIterator[LogFollow]:
    """Every line of one container instance until it has ended and all was read.

    The instance is that of `after`, else the one with the restart count `instance`, else the one that runs now or ran
    last. With `uid`, only of that pod. ContainerWaiting: it has not started.

    Ends in silence only when the log is known to be complete. Disconnected: go on with `after=log.position`.
    LogsRotated: lines are lost; go on in the same way, and what comes is later. LogsUnconfirmed: complete if the
    instance had ended by then, as the error's times say.
    LogsUnavailable: the rest is lost; `error.gap` says the span and the cause.
    A line that was cut comes before the error, as incomplete, and again as a whole when the log is taken up after it.
    After `read_deadline_seconds` without a byte the log is asked for anew: silence may be a dead connection.
    `find_pod` gives the pod as a watch shows it, which saves the requests for it; only for a pod that never restarts
    its containers, because a watch is later than the apiserver.
    """
    request = LogRequest(
        pod=pod,
        namespace=namespace,
        container=container,
        since_second=None if since_ns is None else since_ns // _NANOSECONDS,
        tail_lines=tail_lines,
        deadline_seconds=deadline_seconds,
        read_deadline_seconds=read_deadline_seconds,
        find_pod=find_pod,
    )
    follower = _Follower(client, request, uid=uid, restart_count=instance, position=after, since_ns=since_ns)
    async with aclosing(follower.run()) as blocks:
        yield LogFollow(follower, blocks)


class _OtherInstance(Exception):
    """The answer is not known to be of the instance that is followed; none of its lines was given out."""


class _Behind(Exception):
    """The follow has skipped a file, and may be given the newest one several times: ask for the log anew."""


class _CutShort(Exception):
    """The answer ended before the line that was read last, and shows no later one; none of its lines was given out."""


class _Follower:
    def __init__(
        self,
        client: Client,
        request: LogRequest,
        *,
        uid: str | None,
        restart_count: int | None,
        position: LogPosition | None,
        since_ns: int | None,
    ) -> None:
        self._client = client
        self._request = request
        self._uid = uid
        self._restart_count = restart_count
        self._since_ns = since_ns
        self._can_restart = True
        self._cut: LogBlock | None = None
        self._read_bytes = 0
        self._is_resumed = position is not None and position.count > 0
        self._was_behind = False
        self._ended_ns: int | None = None
        """When the server ended the follow, if no line was found after that."""
        self._late_ns: int | None = None
        """When the last line was read, if that was late."""
        self._begin: LogPosition | None = None
        """Of a log that was rotated: before its first line."""
        self.position = position
        self.block_position: LogPosition | None = None
        """Before the block that was given out last."""
        self.instance: ContainerInstance | None = None
        self.was_read = False

    async def run(self) -> AsyncGenerator[LogBlock, None]:
        try:
            await self._pin()
            async with aclosing(self._follow()) as blocks:
                async for block in blocks:
                    yield block
            await self._await_end()
            async with aclosing(self._confirm()) as blocks:
                async for block in blocks:
                    yield block
        except KubeError as error:
            if isinstance(error, LogsUnavailable) and error.gap is None:
                error.gap = self._gap("log removed")
            if self._cut is not None:
                self.block_position = self.position
                yield self._cut
            if isinstance(error, LogsRotated):
                self.position = self._begin
            raise
        if self._cut is not None:
            self.block_position = self.position
            yield self._cut

    async def _pin(self) -> None:
        """Find the instance that is asked for; it does not change from now on."""
        is_pinned = bool(self._uid or self._restart_count is not None or (self.position and self.position.container_id))
        try:
            pod = await get_pod(self._client, self._request)
        except NotFound as error:
            if not is_pinned:
                raise
            raise LogsUnavailable("the pod is gone, and its logs with it", gap=self._gap("pod deleted")) from error
        uid = pod["metadata"]["uid"]
        if self._uid not in (None, uid):
            message = "the pod is gone, and another one has its name"
            raise LogsUnavailable(message, gap=self._gap("pod deleted"))
        self._uid = uid
        self._can_restart = can_restart(pod, self._request.container)
        self.instance = found = self._choose(list_instances(pod, self._request.container))
        if self.position is None or not self.position.container_id:
            written_ns, count = (self.position.written_ns, self.position.count) if self.position else (0, 0)
            self.position = LogPosition(written_ns, count, found.container_id, found.restart_count)

    def _choose(self, instances: list[ContainerInstance]) -> ContainerInstance:
        newest, position = instances[0], self.position
        if position is not None and position.container_id:
            found = next((each for each in instances if each.container_id == position.container_id), None)
        elif self._restart_count is not None:
            if self._restart_count > newest.restart_count:
                raise ContainerWaiting(f"instance {self._restart_count} of the container has not started")
            found = next((each for each in instances if each.restart_count == self._restart_count), None)
        else:
            found = newest
        if found is None:
            raise LogsUnavailable("the container has restarted more than once since", gap=self._gap("restarted"))
        return found

    async def _follow(self) -> AsyncGenerator[LogBlock, None]:
        """The log up to where the server ends it, through stalls.

        What an instance that has ended has left is only read: a follow takes a connection of its own.
        """
        while True:
            try:
                instance, _ = self._pinned()
                async with aclosing(self._read(is_following=instance.is_running)) as blocks:
                    async for block in blocks:
                        yield block
            except _Behind:
                self._was_behind = True
                continue
            except Stalled:
                continue
            except LogsUnwatched:
                found = await self._find_instance()
                if found is None or not found.is_running:
                    return
                await asyncio.sleep(_UNWATCHED_SECONDS)
                continue
            except NotFound as error:
                # Of the pod or of its node: the message names it.
                message = f"the log is gone: {error.message}"
                raise LogsUnavailable(message, gap=self._gap("pod deleted")) from error
            self._ended_ns = time.time_ns()
            return

    async def _confirm(self) -> AsyncGenerator[LogBlock, None]:
        """What the log of an ended instance still holds behind the last line."""
        try:
            if self._read_bytes > _SHORT_LOG_BYTES and await self._ends_at_position():
                return
            async with aclosing(self._read(is_following=False)) as blocks:
                async for block in blocks:
                    yield block
        except LogsRotated as error:
            if error.gap is None or not has_no_file_between(error.gap):
                raise
            # The container ended after a rotation, and the follow with the file before: the rest is in the new one.
            async with aclosing(self._read_new_file()) as blocks:
                async for block in blocks:
                    yield block
        except (LogsUnavailable, PreviousNotFound, NotFound) as error:
            gap = error.gap if isinstance(error, LogsUnavailable) else self._gap("pod deleted")
            message = f"the log ended, and cannot be read again: {error.message}"
            raise self._unconfirmed(message, gap or self._gap("log removed")) from error

    async def _read_new_file(self) -> AsyncGenerator[LogBlock, None]:
        """What is in the file after a rotation, behind what was read of the line that it cut in two."""
        cut, self._cut, self.position = self._cut, None, self._begin
        if cut is not None:
            self.block_position = self.position
            yield LogBlock.join(cut.split())
        async with aclosing(self._read(is_following=False)) as blocks:
            async for block in blocks:
                yield block

    async def _ends_at_position(self) -> bool:
        """Whether the line that was read last is the last of the log, seen from its last lines. False: not known."""
        instance, position = self._pinned()
        if self._cut is not None or not 0 < position.count <= _MOST_TAIL_LINES:
            return False
        wanted = position.count + 1  # the line before too: an answer that was cut short has one line less
        request = replace(self._request, previous=instance.is_previous, since_second=None, tail_lines=wanted)
        moments: list[int] = []
        async with aclosing(iter_answer(self._client, request)) as blocks:
            async for block in blocks:
                moments += [line.written_ns for line in block.split()]
                if block.is_cut or len(moments) > wanted:
                    return False
        if len(moments) < wanted or moments[0] == position.written_ns:
            return False
        return all(moment == position.written_ns for moment in moments[1:])

    async def _read(self, *, is_following: bool) -> AsyncGenerator[LogBlock, None]:
        """The lines of one answer after the position, of the pinned instance and no other."""
        try:
            async with aclosing(self._read_on(is_following=is_following)) as blocks:
                async for block in blocks:
                    yield block
        except _OtherInstance:
            await self._await_replacement()
        else:
            return
        # The instance before keeps its place until the next restart: a second change is the end of its log.
        try:
            async with aclosing(self._read_on(is_following=False)) as blocks:
                async for block in blocks:
                    yield block
        except _OtherInstance:
            message = "the container has restarted more than once since"
            raise LogsUnavailable(message, gap=self._gap("restarted")) from None

    async def _read_on(self, *, is_following: bool) -> AsyncGenerator[LogBlock, None]:
        """The lines after the position; asks again for an answer that seems to have been cut short."""
        backoff = Backoff(initial_seconds=_SHORT_ANSWER_SECONDS[0], maximum_seconds=_SHORT_ANSWER_SECONDS[1])
        for number in range(_SHORT_ANSWERS + 1):
            is_last = number == _SHORT_ANSWERS
            try:
                async with aclosing(self._read_answer(is_following=is_following, is_believed=is_last)) as blocks:
                    async for block in blocks:
                        yield block
            except _CutShort:
                await asyncio.sleep(backoff.next_seconds())
            else:
                return

    async def _read_answer(self, *, is_following: bool, is_believed: bool) -> AsyncGenerator[LogBlock, None]:
        """The lines of one answer after the position; advances the position.

        `is_believed`: an answer that lacks the line of the position is that of a rotated log, not one that was cut.
        """
        instance, position = self._pinned()
        is_previous = instance.is_previous
        request = replace(self._request, follow=is_following and not is_previous, previous=is_previous)
        if position.count:
            since_second = position.written_ns // _NANOSECONDS - DISORDER_SECONDS
            request = replace(request, since_second=since_second, tail_lines=None)
        resumption = Resumption(position)
        skips = SkipDetector(is_resumed=position.count > 0, is_new=not self._was_behind)
        try:
            on_open = None if position.count else self._check_instance
            async with aclosing(iter_answer(self._client, request, on_open=on_open)) as blocks:
                async for block in blocks:
                    self.was_read = True
                    rest = resumption.skip_read(block)
                    if resumption.is_lost:
                        break
                    if rest is not None and rest.is_cut:
                        self._cut = rest
                    elif rest is not None and (rest := self._filter(rest)) is not None:
                        is_live = request.follow and instance.is_running
                        pauses, is_readable = await self._find_skips(rest, skips) if is_live else ([], False)
                        for part in split_block(rest, pauses, is_read_again=is_readable):
                            yield self._advance(part)
                        if pauses and is_readable:
                            raise _Behind
        except PreviousNotFound as error:
            raise LogsUnavailable("the log is gone", gap=self._gap("log removed")) from error
        self.was_read = True
        if not resumption.is_found:
            await self._check_instance()
            if not resumption.is_lost and not is_believed:
                raise _CutShort
            gap = replace(self._gap("rotated"), until_ns=resumption.first_ns)
            # All that the log has now is unread. Should it begin later when it is read, more was lost.
            self._begin = msgspec.structs.replace(position, written_ns=resumption.first_ns or 0, count=0)
            raise LogsRotated("the last line that was read is no longer in the log", gap=gap)

    async def _find_skips(self, block: LogBlock, skips: SkipDetector) -> tuple[list[Pause], bool]:
        """The pauses in which the node may have skipped a file; and whether the log can be asked for anew."""
        now_ns = time.time_ns()
        pauses = skips.find_pauses(block, now_ns=now_ns)
        if not pauses:
            return [], False
        begins_ns = await self._find_beginning()
        return skips.explain(pauses, begins_ns=begins_ns, now_ns=now_ns), begins_ns is not None

    async def _find_beginning(self) -> int | None:
        """The moment of the first line of the log's newest file; None if it cannot be read now."""
        request = replace(self._request, follow=False, since_second=None, tail_lines=None, limit_bytes=_STAMP_BYTES)
        try:
            async with aclosing(iter_answer(self._client, request)) as blocks:
                async for block in blocks:
                    return block.split()[0].written_ns
        except KubeError:
            return None  # then nothing explains the pause
        return None

    def _filter(self, block: LogBlock) -> LogBlock | None:
        """Its lines that were written at `since_ns` or later."""
        if self._since_ns is None:
            return block
        lines = [line for line in block.split() if line.written_ns >= self._since_ns]
        return LogBlock.join(lines) if lines else None

    def _advance(self, block: LogBlock) -> LogBlock:
        _, self.block_position = self._pinned()
        self.position, self._cut = self.block_position.behind(block), None
        self._read_bytes += len(block.content)
        now_ns = time.time_ns()
        is_late = now_ns - block.written_ns > SHORTEST_ROTATION_NS
        is_large = self._is_resumed or self._read_bytes >= SMALLEST_ROTATED_BYTES
        self._ended_ns, self._late_ns = None, now_ns if is_late and is_large else None
        return block

    async def _check_instance(self) -> None:
        """Raise _OtherInstance unless an answer that has begun was of the pinned instance; see above."""
        if not self._can_restart:
            return
        instance, _ = self._pinned()
        if instance.restart_count or instance.is_previous:
            found = await self._find_instance()
            if found is not None and found.is_previous == instance.is_previous:
                return
        elif not await self._has_previous():
            return
        raise _OtherInstance

    async def _has_previous(self) -> bool:
        """Ask the kubelet whether the container was restarted."""
        try:
            async with open_answer(self._client, replace(self._request, previous=True, tail_lines=1)):
                return True
        except PreviousNotFound:
            return False

    async def _find_instance(self) -> ContainerInstance | None:
        """The pinned instance as the pod's status shows it now; None if it does not any more."""
        pod = await get_pod(self._client, self._request)
        if pod["metadata"]["uid"] != self._uid:
            raise LogsUnavailable("another pod has its pod's name", gap=self._gap("pod deleted"))
        instance, _ = self._pinned()
        try:
            instances = list_instances(pod, self._request.container)
        except ContainerWaiting:
            return None  # Its node has forgotten that it ever ran.
        return next((each for each in instances if each.container_id == instance.container_id), None)

    async def _await_replacement(self) -> None:
        """Wait until the pod's status shows the instance as the one before; the kubelet knew that earlier."""
        clock = asyncio.get_running_loop().time
        ends_at = clock() + _SETTLE_SECONDS
        backoff = Backoff(initial_seconds=0.2, maximum_seconds=2.0)
        while True:
            found = await self._find_instance()
            if found is None:
                message = "the container has restarted more than once since"
                raise LogsUnavailable(message, gap=self._gap("restarted"))
            self.instance = found
            if found.is_previous:
                return
            if clock() > ends_at:
                raise Disconnected("the node gives the log of a later instance than the pod's status says")
            await asyncio.sleep(backoff.next_seconds())

    async def _await_end(self) -> None:
        """Wait until the instance has ended. Disconnected if it goes on."""
        clock = asyncio.get_running_loop().time
        ends_at = clock() + _SETTLE_SECONDS
        backoff = Backoff(initial_seconds=0.2, maximum_seconds=2.0)
        while True:
            try:
                found = await self._find_instance()
            except NotFound as error:
                raise self._unconfirmed("the log ended, and its pod is gone", self._gap("pod deleted")) from error
            except LogsUnavailable as error:
                raise self._unconfirmed(f"the log ended, and {error.message}", error.gap) from error
            if found is None:
                message = "the log ended, and its container has restarted more than once"
                raise self._unconfirmed(message, self._gap("restarted"))
            self.instance = found
            if not found.is_running:
                return
            if clock() > ends_at:
                raise Disconnected("the log ended, but its container still runs")
            await asyncio.sleep(backoff.next_seconds())

    def _pinned(self) -> tuple[ContainerInstance, LogPosition]:
        if self.instance is None or self.position is None:
            raise RuntimeError("no instance was chosen yet")
        return self.instance, self.position

    def _unconfirmed(self, message: str, gap: LogGap | None) -> LogsUnconfirmed:
        return LogsUnconfirmed(message, gap=gap, ended_ns=self._ended_ns, late_ns=self._late_ns)

    def _gap(self, cause: GapCause) -> LogGap:
        """From the last line that was read to the end of the instance, as far as they are known."""
        since_ns = (self.position.written_ns if self.position else 0) or None
        if self.instance is None:
            return LogGap(since_ns or self._since_ns, None, cause)
        return LogGap(since_ns or self._since_ns or self.instance.started_ns, self.instance.finished_ns, cause)
