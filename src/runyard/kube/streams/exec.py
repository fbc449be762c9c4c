"""Exec and attach: a command's stdin, output, terminal size and exit code over v5 or v4.channel.k8s.io.

Both answer with a Status on a channel of its own once all output was sent; a connection that ends before it is
Disconnected, never an exit code. They differ in who writes that Status:

- v4 goes to the container runtime as it is. Its Status is the runtime's own, and a node that dies is a cut.
- v5 (Kubernetes 1.30 and later) can say that stdin has ended, which v4 cannot. But it is translated to SPDY on the way,
  up to 1.35 by the apiserver and since 1.36 by the kubelet, and client-go takes a SPDY stream that was cut for success:
  when the next hop dies, the answer is exit code 0 (measured on 1.34; `watchErrorStream` is the same in 1.36).

So v5 is spoken only where stdin has to be ended: with stdin and without a terminal, which has a character for that.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

import msgspec

from runyard.kube.client import Client
from runyard.kube.errors import Disconnected, KubeError, error_from_status_object
from runyard.kube.resources import PODS
from runyard.kube.streams.channels import ChannelSocket, open_channels
from runyard.kube.streams.errors import HalfCloseUnsupported, recognise

_V5: Final = "v5.channel.k8s.io"
_V4: Final = "v4.channel.k8s.io"

_STDIN, _STDOUT, _STDERR, _STATUS, _RESIZE = range(5)
# A Status is a few hundred bytes; what grows beyond this is not one.
_STATUS_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Output:
    """Bytes of one output stream, as they came."""

    stream: Literal["stdout", "stderr"]
    data: bytes


class StreamSession:
    """A conversation with a process in a container. Iterate it for the output, in the order in which it came.

    Nothing is read ahead: a process whose output is not taken stops at its next write. So a caller that both writes
    and reads much does the two in two tasks. One task may iterate; writes may come from others.
    """

    def __init__(self, channels: ChannelSocket, *, stdin: bool, tty: bool) -> None:
        self._channels = channels
        self._stdin = stdin
        self._tty = tty
        self._status = bytearray()
        self._has_ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Output:
        """The next output; iteration ends when the server reports that all output was sent."""
        while not self._has_ended:
            message = await self._channels.receive()
            if message is None:
                raise Disconnected("the server closed the connection before it said how the command ended")
            if message.channel == _STDOUT and message.data:
                return Output("stdout", message.data)
            if message.channel == _STDERR and message.data:
                return Output("stderr", message.data)
            if message.channel == _STATUS:
                self._read_status(message.data)
        raise StopAsyncIteration

    async def write(self, data: bytes) -> None:
        """Send to stdin; waits while the process does not read. Disconnected when it has ended."""
        self._check_stdin()
        await self._channels.send(_STDIN, data)

    async def close_stdin(self) -> None:
        """Half-close stdin. Raises HalfCloseUnsupported where the protocol cannot; a terminal takes a Ctrl-D."""
        self._check_stdin()
        if not self.can_close_stdin:
            raise HalfCloseUnsupported("v4.channel.k8s.io has no way to say that stdin has ended")
        await self._channels.end_channel(_STDIN)

    @property
    def can_close_stdin(self) -> bool:
        """Whether the protocol can half-close stdin."""
        return self._channels.protocol == _V5

    async def resize(self, *, width: int, height: int) -> None:
        """Tell the terminal its size in characters."""
        if not self._tty:
            raise ValueError("the session was opened without a terminal")
        await self._channels.send(_RESIZE, msgspec.json.encode({"Width": width, "Height": height}))

    def _check_stdin(self) -> None:
        # The servers drop in silence what comes on a channel that was not asked for.
        if not self._stdin:
            raise ValueError("the session was opened without stdin")

    def _read_status(self, data: bytes) -> None:
        self._status += data
        status = _decode_status(self._status)
        if status is not None:
            self._end(status)
            self._has_ended = True
        elif len(self._status) > _STATUS_BYTES:
            raise Disconnected("the server's Status does not end")

    def _end(self, status: dict[str, Any]) -> None:
        """Take the final Status; raise if it says that the stream failed."""
        if status.get("status") != "Success":
            raise _failure(status)


class ExecSession(StreamSession):
    """A conversation with a command that was started for it; its exit code is known at the iteration's end."""

    def __init__(self, channels: ChannelSocket, *, stdin: bool, tty: bool) -> None:
        super().__init__(channels, stdin=stdin, tty=tty)
        self._exit_code: int | None = None

    @property
    def exit_code(self) -> int:
        """The command's exit code, 128 + n when signal n ended it; only after the iteration has ended."""
        if self._exit_code is None:
            raise RuntimeError("the exit code is known when the session was read to its end")
        return self._exit_code

    async def wait(self) -> int:
        """Read what output is left, drop it, and return the exit code."""
        async for _ in self:
            pass
        return self.exit_code

    def _end(self, status: dict[str, Any]) -> None:
        exit_code = _exit_code(status)
        if exit_code is None:
            raise _failure(status)
        self._exit_code = exit_code


@asynccontextmanager
async def exec_in_pod(
    client: Client,
    pod: str,
    command: Sequence[str],
    *,
    namespace: str,
    container: str | None = None,
    stdin: bool = False,
    tty: bool = False,
    deadline_seconds: float = 30.0,
) -> AsyncIterator[ExecSession]:
    """Start a command in a running container and talk to it; not idempotent, and never repeated.

    `deadline_seconds` runs until the server has taken the request. A terminal has one output, stdout. Leaving the block
    closes stdin and the outputs; the kubelet does not end a command that goes on without them.
    Where stdin has to be ended, exit code 0 may mean that the node died (see above): let the command say a last word.
    """
    if isinstance(command, str) or not command:
        raise ValueError("a command is a sequence of at least one argument")
    params = [("command", argument) for argument in command] + _stream_params(container, stdin=stdin, tty=tty)
    async with open_channels(
        client,
        PODS.path(namespace=namespace, name=pod, subresource="exec"),
        params=params,
        protocols=(_V5, _V4) if stdin and not tty else (_V4,),
        deadline_seconds=deadline_seconds,
    ) as channels:
        yield ExecSession(channels, stdin=stdin, tty=tty)


@asynccontextmanager
async def attach_to_pod(
    client: Client,
    pod: str,
    *,
    namespace: str,
    container: str | None = None,
    stdin: bool = False,
    tty: bool = False,
    deadline_seconds: float = 30.0,
) -> AsyncIterator[StreamSession]:
    """Talk to a container's own process, from now on; what it wrote before is in its log.

    `stdin` and `tty` must be what the container was declared with. The iteration ends when the container does; how it
    ended is in the pod's status.
    """
    async with open_channels(
        client,
        PODS.path(namespace=namespace, name=pod, subresource="attach"),
        params=_stream_params(container, stdin=stdin, tty=tty),
        protocols=(_V5, _V4) if stdin and not tty else (_V4,),
        deadline_seconds=deadline_seconds,
    ) as channels:
        yield StreamSession(channels, stdin=stdin, tty=tty)


def _stream_params(container: str | None, *, stdin: bool, tty: bool) -> list[tuple[str, str]]:
    params = [("stdout", "true")]
    if not tty:
        params.append(("stderr", "true"))
    if stdin:
        params.append(("stdin", "true"))
    if tty:
        params.append(("tty", "true"))
    if container is not None:
        params.append(("container", container))
    return params


def _decode_status(data: bytearray) -> dict[str, Any] | None:
    """The Status if it is whole: the server announces an open stream with an empty message."""
    try:
        status = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return None
    return status if isinstance(status, dict) else None


def _exit_code(status: dict[str, Any]) -> int | None:
    """0 for Success, the ExitCode cause of a NonZeroExitCode; None for every other Status, however odd."""
    if status.get("status") == "Success":
        return 0
    failure = error_from_status_object(status)
    if failure.reason != "NonZeroExitCode":
        return None
    try:
        codes = [int(cause.message) for cause in failure.causes if cause.reason == "ExitCode"]
    except ValueError:
        return None
    # A failure with exit code 0 contradicts itself: it is not a success.
    return codes[0] if codes and codes[0] != 0 else None


def _failure(status: dict[str, Any]) -> KubeError:
    """The error for a Status that does not report the command's own exit."""
    message = status.get("message")
    return recognise(message if isinstance(message, str) else "") or error_from_status_object(status)
