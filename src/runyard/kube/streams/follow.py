"""Follows a container's log from a position to its real end.

A follow that ends in order has not proved that the log has: when a kubelet dies, the apiserver ends the answers it was
passing on as if they were complete (measured on 1.36). So at the end the pod is asked whether the container ended too,
and the log is read once more from the last line.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

from runyard.kube.backoff import Backoff
from runyard.kube.client import Client
from runyard.kube.errors import Disconnected, KubeError, NotFound, Stalled
from runyard.kube.streams.errors import (
    ContainerWaiting,
    LogsRotated,
    LogsUnavailable,
    LogsUnconfirmed,
    PreviousNotFound,
)
from runyard.kube.streams.instances import get_instance
from runyard.kube.streams.loglines import LogLine, LogPosition
from runyard.kube.streams.logs import LogRequest, get_pod, iter_answer

_NANOSECONDS = 1_000_000_000
# Two outputs of one program may be stamped in an order other than the log's, by scheduling: far less than this.
_DISORDER_SECONDS = 1
# How long a kubelet may take to say that a container ended, after it ended the container's log.
_SETTLE_SECONDS = 15.0


@asynccontextmanager
async def follow_logs(
    client: Client,
    pod: str,
    *,
    namespace: str,
    container: str | None = None,
    after: LogPosition | None = None,
    since_ns: int | None = None,
    tail_lines: int | None = None,
    deadline_seconds: float = 30.0,
    read_deadline_seconds: float = 300.0,
) -> AsyncIterator[AsyncIterator[LogLine]]:
    """Every line of the container instance that runs now, or ran last, until it has ended and all was read.

    Ends in silence only when the log is known to be complete. Disconnected: go on with `after` the last line (see
    `LogPosition.after`). LogsRotated: lines are lost; go on with `since_ns`. LogsUnconfirmed: probably complete.
    A line that was cut comes before the error, as incomplete, and again as a whole when the log is taken up after it.
    After `read_deadline_seconds` without a byte the log is asked for anew: silence may be a dead connection.
    """
    request = LogRequest(
        pod=pod,
        namespace=namespace,
        container=container,
        follow=True,
        since_second=None if since_ns is None else since_ns // _NANOSECONDS,
        tail_lines=tail_lines,
        deadline_seconds=deadline_seconds,
        read_deadline_seconds=read_deadline_seconds,
    )
    async with aclosing(_Follower(client, request, position=after, since_ns=since_ns).run()) as lines:
        yield lines


class _Follower:
    def __init__(
        self, client: Client, request: LogRequest, *, position: LogPosition | None, since_ns: int | None
    ) -> None:
        self._client = client
        self._request = request
        self._position = position
        self._since_ns = since_ns
        self._cut: LogLine | None = None

    async def run(self) -> AsyncGenerator[LogLine, None]:
        pod = await get_pod(self._client, self._request)
        uid = pod["metadata"]["uid"]
        container_id = get_instance(pod, self._request.container).container_id
        try:
            async with aclosing(self._follow()) as lines:
                async for line in lines:
                    yield line
            is_previous = await self._await_end(uid, container_id)
            async with aclosing(self._confirm(is_previous=is_previous)) as lines:
                async for line in lines:
                    yield line
        except KubeError:
            if self._cut is not None:
                yield self._cut
            raise
        if self._cut is not None:
            yield self._cut

    async def _follow(self) -> AsyncGenerator[LogLine, None]:
        """The log up to where the server ends it, through stalls."""
        while True:
            try:
                async with aclosing(self._read_on(self._request)) as lines:
                    async for line in lines:
                        yield line
            except Stalled:
                continue
            return

    async def _confirm(self, *, is_previous: bool) -> AsyncGenerator[LogLine, None]:
        """What the log of an ended instance still holds behind the last line."""
        request = replace(self._request, follow=False, previous=is_previous)
        try:
            async with aclosing(self._read_on(request)) as lines:
                async for line in lines:
                    yield line
        except LogsRotated:
            raise
        except (LogsUnavailable, PreviousNotFound, NotFound) as error:
            raise LogsUnconfirmed("the log ended, and was gone before it could be read again") from error

    async def _read_on(self, request: LogRequest) -> AsyncGenerator[LogLine, None]:
        """The lines of one answer after the position; advances the position."""
        position, to_skip = self._position, 0
        if position is not None:
            since_second = position.written_ns // _NANOSECONDS - _DISORDER_SECONDS
            request = replace(request, since_second=since_second, tail_lines=None)
            to_skip = position.count
        async with aclosing(iter_answer(self._client, request)) as lines:
            async for line in lines:
                if position is not None and to_skip:
                    if line.written_ns == position.written_ns:
                        to_skip -= 1
                    elif line.written_ns > position.written_ns + _DISORDER_SECONDS * _NANOSECONDS:
                        break
                elif LogPosition.after(line, None) is None:
                    self._cut = line
                elif self._since_ns is None or line.written_ns >= self._since_ns:
                    self._position, self._cut = LogPosition.after(line, self._position), None
                    yield line
        if to_skip:
            raise LogsRotated("the last line that was read is no longer in the log")

    async def _await_end(self, uid: str, container_id: str) -> bool:
        """Wait until the instance has ended; whether another has taken its place. Disconnected if it goes on."""
        clock = asyncio.get_running_loop().time
        ends_at = clock() + _SETTLE_SECONDS
        backoff = Backoff(initial_seconds=0.2, maximum_seconds=2.0)
        while True:
            try:
                pod = await get_pod(self._client, self._request)
                instance = get_instance(pod, self._request.container)
            except NotFound as error:
                raise LogsUnconfirmed("the log ended, and its pod is gone") from error
            except ContainerWaiting as error:
                raise LogsUnconfirmed("the log ended, and its container's state was forgotten") from error
            if pod["metadata"]["uid"] != uid:
                raise LogsUnconfirmed("the log ended, and another pod has its pod's name")
            if instance.previous_id == container_id:
                return True
            if instance.container_id != container_id:
                raise LogsUnconfirmed("the log ended, and its container was restarted more than once")
            if not instance.is_running:
                return False
            if clock() > ends_at:
                raise Disconnected("the log ended, but its container still runs")
            await asyncio.sleep(backoff.next_seconds())
