"""The log of a container as it is now. `follow` reads on while it grows.

Kubernetes keeps only what its node still has: the rotated part of a log cannot be read, and a log goes with its pod.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from runyard.kube.client import Client
from runyard.kube.errors import Disconnected, KubeError
from runyard.kube.objects import Object
from runyard.kube.rate_limiter import Priority
from runyard.kube.resources import PODS
from runyard.kube.streams.errors import recognised
from runyard.kube.streams.instances import get_instance
from runyard.kube.streams.loglines import LineParser, LogBlock, LogLine


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRequest:
    """One log request."""

    pod: str
    namespace: str
    container: str | None
    deadline_seconds: float
    read_deadline_seconds: float
    follow: bool = False
    previous: bool = False
    since_second: int | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None
    """Of the answer, timestamps included."""
    find_pod: Callable[[], Object | None] | None = None
    """The pod as the caller knows it by a watch, instead of a request; None: ask the cluster."""

    @property
    def path(self) -> str:
        """The path of the request."""
        return PODS.path(namespace=self.namespace, name=self.pod, subresource="log")

    def params(self) -> dict[str, str]:
        """The query of the request; timestamps tell log lines from the kubelet's messages."""
        params = {"timestamps": "true"}
        if self.container is not None:
            params["container"] = self.container
        if self.follow:
            params["follow"] = "true"
        if self.previous:
            params["previous"] = "true"
        if self.since_second is not None:
            params["sinceTime"] = datetime.fromtimestamp(self.since_second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if self.tail_lines is not None:
            params["tailLines"] = str(self.tail_lines)
        if self.limit_bytes is not None:
            params["limitBytes"] = str(self.limit_bytes)
        return params


@asynccontextmanager
async def read_logs(
    client: Client,
    pod: str,
    *,
    namespace: str,
    container: str | None = None,
    previous: bool = False,
    since_ns: int | None = None,
    tail_lines: int | None = None,
    limit_bytes: int | None = None,
    deadline_seconds: float = 30.0,
    read_deadline_seconds: float = 30.0,
) -> AsyncIterator[AsyncIterator[LogLine]]:
    """The lines that the log has now: of the instance before with `previous`, written at `since_ns` or later.

    Ends after `limit_bytes`, newlines included, in the middle of a line if need be. A cut is Disconnected; what was
    there of the line it hit comes before it, as incomplete.
    """
    request = LogRequest(
        pod=pod,
        namespace=namespace,
        container=container,
        previous=previous,
        since_second=None if since_ns is None else since_ns // 1_000_000_000,
        tail_lines=tail_lines,
        deadline_seconds=deadline_seconds,
        read_deadline_seconds=read_deadline_seconds,
    )
    async with aclosing(_read(client, request, since_ns=since_ns, limit_bytes=limit_bytes)) as lines:
        yield lines


async def _read(
    client: Client, request: LogRequest, *, since_ns: int | None, limit_bytes: int | None
) -> AsyncGenerator[LogLine, None]:
    left_bytes = limit_bytes
    async with aclosing(_iter_lines(client, request)) as lines:
        async for line in lines:
            if since_ns is not None and line.written_ns < since_ns:
                continue
            if left_bytes is None:
                yield line
                continue
            size_bytes = len(line.text) + line.is_complete
            if size_bytes > left_bytes:
                yield LogLine(line.written_ns, line.text[:left_bytes], is_complete=False)
                return
            yield line
            left_bytes -= size_bytes
            if not left_bytes:
                return


async def _iter_lines(client: Client, request: LogRequest) -> AsyncGenerator[LogLine, None]:
    async with aclosing(iter_answer(client, request)) as blocks:
        async for block in blocks:
            for line in block.split():
                yield line


async def iter_answer(
    client: Client, request: LogRequest, *, on_open: Callable[[], Awaitable[None]] | None = None
) -> AsyncGenerator[LogBlock, None]:
    """The lines of one answer as they come, and at its end or cut what is there of the last.

    `on_open` is called when the server has begun its answer, before the first line.
    """
    parser = LineParser(is_since=request.since_second is not None)
    is_empty = True
    try:
        async with open_answer(client, request) as chunks:
            if on_open is not None:
                await on_open()
            async for chunk in chunks:
                is_empty = False
                block = parser.feed_block(chunk)
                if block is not None:
                    yield block
                parser.check()
        parser.end()
    except Disconnected:
        cut = parser.cut_line()
        if cut is not None:
            yield LogBlock.join([cut], is_cut=True)
        raise
    except KubeError as error:
        error.request = error.request or f"GET {request.path}"
        raise
    cut = parser.cut_line()
    if cut is not None:
        yield LogBlock.join([cut], is_cut=True)
    if is_empty and not request.previous:
        # A pod without a node has no log and no error either: the apiserver answers 204.
        get_instance(await get_pod(client, request), request.container)


@asynccontextmanager
async def open_answer(client: Client, request: LogRequest) -> AsyncIterator[AsyncIterator[bytes]]:
    """The bytes of one answer; a refusal raises the error that its sentence means."""
    opening = client.transport.stream(
        request.path,
        params=request.params(),
        priority=Priority.LOGS if client.priority is None else client.priority,
        deadline_seconds=request.deadline_seconds,
        read_deadline_seconds=request.read_deadline_seconds,
    )
    async with AsyncExitStack() as stack:
        with recognised():
            chunks = await stack.enter_async_context(opening)
        yield chunks


async def get_pod(client: Client, request: LogRequest) -> Object:
    """The pod whose log is asked for."""
    if request.find_pod is not None and (known := request.find_pod()) is not None:
        return known
    return await client.get(PODS, request.pod, namespace=request.namespace, deadline_seconds=request.deadline_seconds)
