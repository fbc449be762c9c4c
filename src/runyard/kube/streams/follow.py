"""Follows the log of one container instance from a position to its real end.

A follow that ends in order has not proved that the log has: when a kubelet dies, the apiserver ends the answers it was
passing on as if they were complete (measured on 1.36). So at the end the pod is asked whether the container ended too,
and the log is read once more from the last line.

No answer says whose log it is. The kubelet gives the log of the instance that is the newest for it, and the pod's
status lags behind the kubelet. So an answer is known by its content: it holds the last line that was read. If nothing
was read yet, or that line is missing, the follower asks after the answer has begun:

- For the first instance it asks the kubelet for a previous one. If there is none, the answer was the first's.
- For a later one it asks for the pod. A kubelet waits ten seconds before a second restart; a status lags by far less.

A container that cannot restart (`restartPolicy: Never`) needs neither.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Self

from runyard.kube.backoff import Backoff
from runyard.kube.client import Client
from runyard.kube.errors import Disconnected, KubeError, NotFound, Stalled
from runyard.kube.streams.errors import (
    ContainerWaiting,
    GapCause,
    LogGap,
    LogsRotated,
    LogsUnavailable,
    LogsUnconfirmed,
    PreviousNotFound,
)
from runyard.kube.streams.instances import ContainerInstance, can_restart, list_instances
from runyard.kube.streams.loglines import LogLine, LogPosition
from runyard.kube.streams.logs import LogRequest, get_pod, iter_answer, open_answer

_NANOSECONDS = 1_000_000_000
# Two outputs of one program may be stamped in an order other than the log's, by scheduling: far less than this.
_DISORDER_SECONDS = 1
# How long a pod's status may lag behind its kubelet.
_SETTLE_SECONDS = 15.0


class LogFollow:
    """The lines of one container instance as they come. An async iterator; one task may iterate."""

    def __init__(self, follower: "_Follower", lines: AsyncIterator[LogLine]) -> None:
        self._follower = follower
        self._lines = lines

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LogLine:
        return await anext(self._lines)

    @property
    def position(self) -> LogPosition | None:
        """Behind the last line that was given out, to go on from there; names the instance once it is known."""
        return self._follower.position

    @property
    def instance(self) -> ContainerInstance | None:
        """The instance that is followed, as the pod's status showed it last; None until it is known."""
        return self._follower.instance


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
) -> AsyncIterator[LogFollow]:
    """Every line of one container instance until it has ended and all was read.

    The instance is that of `after`, else the one with the restart count `instance`, else the one that runs now or ran
    last. With `uid`, only of that pod. ContainerWaiting: it has not started.

    Ends in silence only when the log is known to be complete. Disconnected: go on with `after=log.position`.
    LogsRotated: lines are lost; go on with `since_ns=error.gap.until_ns`. LogsUnconfirmed: probably complete.
    LogsUnavailable: the rest is lost; `error.gap` says the span and the cause.
    A line that was cut comes before the error, as incomplete, and again as a whole when the log is taken up after it.
    After `read_deadline_seconds` without a byte the log is asked for anew: silence may be a dead connection.
    """
    request = LogRequest(
        pod=pod,
        namespace=namespace,
        container=container,
        since_second=None if since_ns is None else since_ns // _NANOSECONDS,
        tail_lines=tail_lines,
        deadline_seconds=deadline_seconds,
        read_deadline_seconds=read_deadline_seconds,
    )
    follower = _Follower(client, request, uid=uid, restart_count=instance, position=after, since_ns=since_ns)
    async with aclosing(follower.run()) as lines:
        yield LogFollow(follower, lines)


class _OtherInstance(Exception):
    """The answer is not known to be of the instance that is followed; none of its lines was given out."""


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
        self._cut: LogLine | None = None
        self.position = position
        self.instance: ContainerInstance | None = None

    async def run(self) -> AsyncGenerator[LogLine, None]:
        try:
            await self._pin()
            async with aclosing(self._follow()) as lines:
                async for line in lines:
                    yield line
            await self._await_end()
            async with aclosing(self._confirm()) as lines:
                async for line in lines:
                    yield line
        except KubeError as error:
            if isinstance(error, LogsUnavailable) and error.gap is None:
                error.gap = self._gap("log removed")
            if self._cut is not None:
                yield self._cut
            raise
        if self._cut is not None:
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

    async def _follow(self) -> AsyncGenerator[LogLine, None]:
        """The log up to where the server ends it, through stalls."""
        while True:
            try:
                async with aclosing(self._read(is_following=True)) as lines:
                    async for line in lines:
                        yield line
            except Stalled:
                continue
            except NotFound as error:
                raise LogsUnavailable("the pod is gone, and its logs with it", gap=self._gap("pod deleted")) from error
            return

    async def _confirm(self) -> AsyncGenerator[LogLine, None]:
        """What the log of an ended instance still holds behind the last line."""
        try:
            async with aclosing(self._read(is_following=False)) as lines:
                async for line in lines:
                    yield line
        except LogsRotated:
            raise
        except (LogsUnavailable, NotFound) as error:
            gap = error.gap if isinstance(error, LogsUnavailable) else self._gap("pod deleted")
            message = "the log ended, and was gone before it could be read again"
            raise LogsUnconfirmed(message, gap=gap or self._gap("log removed")) from error

    async def _read(self, *, is_following: bool) -> AsyncGenerator[LogLine, None]:
        """The lines of one answer after the position, of the pinned instance and no other."""
        try:
            async with aclosing(self._read_on(is_following=is_following)) as lines:
                async for line in lines:
                    yield line
        except _OtherInstance:
            await self._await_replacement()
        else:
            return
        # The instance before keeps its place until the next restart: a second change is the end of its log.
        try:
            async with aclosing(self._read_on(is_following=False)) as lines:
                async for line in lines:
                    yield line
        except _OtherInstance:
            message = "the container has restarted more than once since"
            raise LogsUnavailable(message, gap=self._gap("restarted")) from None

    async def _read_on(self, *, is_following: bool) -> AsyncGenerator[LogLine, None]:
        """The lines of one answer after the position; advances the position."""
        instance, position = self._pinned()
        is_previous = instance.is_previous
        request = replace(self._request, follow=is_following and not is_previous, previous=is_previous)
        to_skip, until_ns = position.count, None
        if to_skip:
            since_second = position.written_ns // _NANOSECONDS - _DISORDER_SECONDS
            request = replace(request, since_second=since_second, tail_lines=None)
        try:
            on_open = None if to_skip else self._check_instance
            async with aclosing(iter_answer(self._client, request, on_open=on_open)) as lines:
                async for line in lines:
                    if to_skip:
                        if line.written_ns == position.written_ns:
                            to_skip -= 1
                        elif line.written_ns > position.written_ns:
                            until_ns = until_ns or line.written_ns
                            if line.written_ns > position.written_ns + _DISORDER_SECONDS * _NANOSECONDS:
                                break
                    elif LogPosition.after(line, None) is None:
                        self._cut = line
                    elif self._since_ns is None or line.written_ns >= self._since_ns:
                        self.position, self._cut = LogPosition.after(line, self.position), None
                        yield line
        except PreviousNotFound as error:
            raise LogsUnavailable("the log is gone", gap=self._gap("log removed")) from error
        if to_skip:
            await self._check_instance()
            message = "the last line that was read is no longer in the log"
            raise LogsRotated(message, gap=replace(self._gap("rotated"), until_ns=until_ns))

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
                raise LogsUnconfirmed("the log ended, and its pod is gone", gap=self._gap("pod deleted")) from error
            except LogsUnavailable as error:
                raise LogsUnconfirmed(f"the log ended, and {error.message}", gap=error.gap) from error
            if found is None:
                message = "the log ended, and its container has restarted more than once"
                raise LogsUnconfirmed(message, gap=self._gap("restarted"))
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

    def _gap(self, cause: GapCause) -> LogGap:
        """From the last line that was read to the end of the instance, as far as they are known."""
        since_ns = self.position.written_ns if self.position and self.position.count else None
        if self.instance is None:
            return LogGap(since_ns or self._since_ns, None, cause)
        return LogGap(since_ns or self._since_ns or self.instance.started_ns, self.instance.finished_ns, cause)
