"""Streams of a container as `app.engine.Channel`: exec and attach, and a forwarded port."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import Any, TypeGuard

from runyard.app.engine import LARGEST_MESSAGE_BYTES, ChannelId, EngineUnavailable
from runyard.domain.reasons import Reason
from runyard.kube import Disconnected, KubeError, Unavailable
from runyard.kube.streams import ExecSession, HalfCloseUnsupported, PortConnection, StreamSession

_SUCCESS: dict[str, Any] = {"metadata": {}, "status": "Success"}
_LARGEST_SIZE = 65_535


class SessionChannel:
    """A conversation with a process in a container."""

    def __init__(self, session: StreamSession, stack: AsyncExitStack, *, has_stdin: bool, is_tty: bool) -> None:
        self._session = session
        self._closing = _Closing(stack)
        self._has_stdin = has_stdin
        self._is_tty = is_tty

    async def send(self, channel: ChannelId, content: bytes) -> None:
        """Send to the process; what it cannot take is dropped."""
        with _sending():
            if channel is ChannelId.RESIZE:
                await self._resize(content)
            elif not self._has_stdin:
                return
            elif channel is ChannelId.STDIN:
                await self._session.write(content)
            elif channel is ChannelId.CLOSE and content == bytes([ChannelId.STDIN]):
                await self._end_stdin()

    async def receive(self) -> AsyncIterator[tuple[ChannelId, bytes]]:
        """The outputs as they come, then the status."""
        try:
            async for output in self._session:
                channel = ChannelId.STDOUT if output.stream == "stdout" else ChannelId.STDERR
                for part in _cut(output.data):
                    yield channel, part
        except Unavailable as error:
            raise EngineUnavailable(Reason.ENGINE_FAILED, f"the connection to the container broke: {error}") from error
        except KubeError as error:
            yield ChannelId.ERROR, write_failure(error.message)
            return
        yield ChannelId.ERROR, json.dumps(self._make_status()).encode()

    async def close(self) -> None:
        """Close the connection. Idempotent."""
        await self._closing.close()

    def _make_status(self) -> dict[str, Any]:
        exit_code = self._session.exit_code if isinstance(self._session, ExecSession) else 0
        if not exit_code:
            return _SUCCESS
        return {
            "metadata": {},
            "status": "Failure",
            "message": f"command terminated with non-zero exit code: {exit_code}",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
        }

    async def _end_stdin(self) -> None:
        # A terminal has a character for the end of its input, which the user types.
        if self._is_tty:
            return
        try:
            await self._session.close_stdin()
        except HalfCloseUnsupported as error:
            message = f"the end of stdin cannot be sent to this cluster: {error}"
            raise EngineUnavailable(Reason.ENGINE_FAILED, message) from error

    async def _resize(self, content: bytes) -> None:
        size = _read_size(content)
        if self._is_tty and size is not None:
            await self._session.resize(width=size[0], height=size[1])


class PortChannel:
    """A connection to a TCP port of a pod."""

    def __init__(self, connection: PortConnection, stack: AsyncExitStack) -> None:
        self._connection = connection
        self._closing = _Closing(stack)

    async def send(self, channel: ChannelId, content: bytes) -> None:
        """Send to the port. Kubernetes cannot half-close a forwarded port: the end of the input is dropped."""
        if channel is ChannelId.STDIN:
            with _sending():
                await self._connection.write(content)

    async def receive(self) -> AsyncIterator[tuple[ChannelId, bytes]]:
        """What the port sends, until it closes the connection; ERROR if the node cannot connect."""
        try:
            while data := await self._connection.read():
                for part in _cut(data):
                    yield ChannelId.STDIN, part
        except Unavailable as error:
            raise EngineUnavailable(Reason.ENGINE_FAILED, f"the connection to the pod broke: {error}") from error
        except KubeError as error:
            yield ChannelId.ERROR, write_failure(error.message)

    async def close(self) -> None:
        """Close the connection. Idempotent."""
        await self._closing.close()


class _Closing:
    """Closes a connection once; whoever comes later waits until it is closed."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._lock = asyncio.Lock()

    async def close(self) -> None:
        async with self._lock:
            # Whatever is wrong with the connection: it is gone, which is what was asked for.
            with suppress(KubeError):
                await self._stack.aclose()


def write_failure(message: str) -> bytes:
    """A status that says that the session failed, in at most `LARGEST_MESSAGE_BYTES`."""
    return json.dumps({"metadata": {}, "status": "Failure", "message": message}).encode()


@contextmanager
def _sending() -> Iterator[None]:
    """What comes after the connection has ended is dropped: `receive` says why it did."""
    try:
        yield
    except Disconnected:
        return
    except KubeError as error:
        raise EngineUnavailable(Reason.ENGINE_FAILED, f"the connection to the container broke: {error}") from error


def _cut(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), LARGEST_MESSAGE_BYTES):
        yield data[start : start + LARGEST_MESSAGE_BYTES]


def _read_size(content: bytes) -> tuple[int, int] | None:
    """Width and height of a terminal; None if the client sent something else."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    width, height = (found.get("Width"), found.get("Height")) if isinstance(found, dict) else (None, None)
    return (width, height) if _is_size(width) and _is_size(height) else None


def _is_size(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 < value <= _LARGEST_SIZE
