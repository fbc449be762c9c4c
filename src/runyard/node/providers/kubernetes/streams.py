"""Logs, exec, attach and port-forward of pods at a Kubernetes provider: its own API, one hop further.

Nothing is decoded. The provider's apiserver speaks the same protocols as a kubelet; only path and query differ.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager

from runyard.kube import ApiError, Client, KubeError, NotFound, Priority, Throttled, Unauthorized, Unavailable
from runyard.kube.errors import NotServed, ServerError
from runyard.kube.resources import PODS
from runyard.kube.tunnel import RawConnection
from runyard.node.providers.provider import (
    LogOptions,
    ProviderError,
    ProviderRefused,
    ProviderUnavailable,
    RemotePodMissing,
    StreamKind,
    Tunnel,
)

OPEN_SECONDS = 30.0
"""How long the provider has to begin its answer."""
_SWITCHES = {"input": "stdin", "output": "stdout", "error": "stderr", "tty": "tty"}
_TRUE = frozenset({"", "1", "true"})


class KubernetesStreams:
    """The `Logs` and `Relay` of a Kubernetes provider."""

    def __init__(self, client: Client, *, namespace: str, find_remote: Callable[[str], str | None]) -> None:
        self._client = client
        self._namespace = namespace
        self._find_remote = find_remote

    @asynccontextmanager
    async def read_log(self, uid: str, container: str, options: LogOptions) -> AsyncIterator[AsyncIterator[bytes]]:
        """See `Logs`."""
        path = self._path(uid, "log")
        opening = self._client.transport.stream(
            path,
            params=render_log_query(container, options),
            priority=Priority.LOGS,
            deadline_seconds=OPEN_SECONDS,
        )
        async with AsyncExitStack() as stack:
            with provider_errors(uid):
                chunks = await stack.enter_async_context(opening)
            yield await stack.enter_async_context(aclosing(_translated(chunks, uid)))

    @asynccontextmanager
    async def open_tunnel(
        self,
        kind: StreamKind,
        uid: str,
        container: str | None,
        *,
        method: str,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str],
    ) -> AsyncIterator[Tunnel]:
        """See `Relay`."""
        path = self._path(uid, kind)
        opening = self._client.transport.tunnel(
            method,
            path,
            params=render_stream_query(kind, container, query),
            headers=headers,
            priority=Priority.CREATE,
            deadline_seconds=OPEN_SECONDS,
        )
        async with AsyncExitStack() as stack:
            with provider_errors(uid):
                connection = await stack.enter_async_context(opening)
            yield _ProviderTunnel(connection, uid)

    def _path(self, uid: str, subresource: str) -> str:
        name = self._find_remote(uid)
        if name is None:
            raise RemotePodMissing(f"no pod of uid {uid}")
        return PODS.path(namespace=self._namespace, name=name, subresource=subresource)


class _ProviderTunnel:
    """A connection to the provider whose failures are a provider's."""

    def __init__(self, connection: RawConnection, uid: str) -> None:
        self._connection = connection
        self._uid = uid

    @property
    def headers(self) -> Sequence[tuple[str, str]]:
        return self._connection.headers

    async def receive(self) -> bytes:
        with provider_errors(self._uid):
            return await self._connection.receive()

    async def send(self, data: bytes) -> None:
        with provider_errors(self._uid):
            await self._connection.send(data)

    async def close_sending(self) -> None:
        await self._connection.close_sending()


async def _translated(chunks: AsyncIterator[bytes], uid: str) -> AsyncGenerator[bytes, None]:
    with provider_errors(uid):
        async for chunk in chunks:
            yield chunk


@contextmanager
def provider_errors(uid: str) -> Iterator[None]:
    """Turn what the provider's apiserver answers into a provider's errors: no answer is never a decision."""
    try:
        yield
    except KubeError as error:
        raise _translate(error, uid) from error


def _translate(error: KubeError, uid: str) -> ProviderError:
    match error:
        case NotFound() if error.details.get("kind") == "pods":
            return RemotePodMissing(f"no pod of uid {uid}")
        case Unavailable() | Unauthorized() | Throttled() | NotServed():
            return ProviderUnavailable(str(error))
        case ServerError() if not error.is_status:
            return ProviderUnavailable(str(error))
        case ApiError():
            return ProviderRefused(error.reason or type(error).__name__, error.server_message or str(error))
        case _:
            return ProviderUnavailable(str(error))


def render_log_query(container: str, options: LogOptions) -> list[tuple[str, str]]:
    """The query of an apiserver's `pods/log`."""
    query = [("container", container)]
    switches = {"follow": options.follow, "previous": options.previous, "timestamps": options.timestamps}
    query += [(name, "true") for name, is_set in switches.items() if is_set]
    values = {
        "sinceSeconds": options.since_seconds,
        "sinceTime": options.since_time,
        "tailLines": options.tail_lines,
        "limitBytes": options.limit_bytes,
    }
    return query + [(name, str(value)) for name, value in values.items() if value is not None]


def render_stream_query(
    kind: StreamKind, container: str | None, query: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """A kubelet's query as an apiserver understands it: `input=1` is `stdin=true`; a port is a list of ports."""
    if kind == "portforward":
        return [("ports", value) for name, value in query if name == "port"]
    rendered = [("container", container)] if container is not None else []
    for name, value in query:
        if name == "command":
            rendered.append((name, value))
        elif name in _SWITCHES:
            rendered.append((_SWITCHES[name], "true" if value in _TRUE else "false"))
    return rendered
