"""Sessions in containers: a command whose input and output move at once, and ports of this machine that lead there."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from runyard.sdk.aio.transport import AsyncTransport
from runyard.sdk.calls import Call, get
from runyard.sdk.errors import ArgumentError, NotSupported, RunyardError, SessionFailed, WaitTimeout
from runyard.sdk.sessions.channels import (
    END_OF_INPUT,
    ERROR,
    OUTPUTS,
    STDIN,
    ExecResult,
    OnProblem,
    Output,
    PortForward,
    iter_messages,
    make_resize,
    read_status,
)
from runyard.sdk.sessions.web_socket import AsyncWebSocket, open_web_socket
from runyard.spec.problem_codes import Code

MOST_OUTPUT_BYTES = 64 << 20
"""The most that `exec` keeps of what a command prints."""
READ_BYTES = 32 << 10
HALF_CLOSED_SECONDS = 60.0
"""How long a port may be silent after the local side has ended its input: nobody tells whether it has gone."""

_log = logging.getLogger("runyard.sdk")


class AsyncSession:
    """A command in a container. `async for output in session` yields what it prints, until it has ended."""

    def __init__(self, socket: AsyncWebSocket) -> None:
        self._socket = socket
        self._exit_code: int | None = None

    @property
    def exit_code(self) -> int | None:
        """The command's exit code, once it has ended; 0 if the session knows none."""
        return self._exit_code

    async def send(self, content: bytes) -> None:
        """Send input; waits while the command does not read. Raises `ServerUnreachable` once it has ended."""
        for message in iter_messages(STDIN, content):
            await self._socket.send(message)

    async def close_input(self) -> None:
        """End the input; the output goes on."""
        await self._socket.send(END_OF_INPUT)

    async def resize(self, columns: int, rows: int) -> None:
        """Tell the command the size of its terminal."""
        await self._socket.send(make_resize(columns, rows))

    async def __aiter__(self) -> AsyncIterator[Output]:
        status: bytes | None = None
        while (message := await self._socket.receive()) is not None:
            if message[:1] == bytes([ERROR]):
                status = message[1:]
            elif message and message[0] in OUTPUTS:
                yield Output(OUTPUTS[message[0]], message[1:])
        if status is None:
            raise SessionFailed(f"the session ended early: {self._socket.end}")
        self._exit_code = read_status(status)


@asynccontextmanager
async def open_session(transport: AsyncTransport, call: Call) -> AsyncIterator[AsyncSession]:
    """Open a session; it ends with the block. Raises `RunyardError`."""
    async with open_web_socket(transport, call) as socket:
        yield AsyncSession(socket)


async def execute(transport: AsyncTransport, call: Call, *, content: bytes | None, timeout: float | None) -> ExecResult:
    """Execute a command to its end. Raises `RunyardError`; `WaitTimeout` after `timeout` seconds."""
    kept: dict[str, bytearray] = {name: bytearray() for name in OUTPUTS.values()}
    try:
        async with asyncio.timeout(timeout), open_session(transport, call) as session:
            sending = asyncio.create_task(_send_input(session, content))
            try:
                async for output in session:
                    kept[output.stream] += output.content
                    if sum(map(len, kept.values())) > MOST_OUTPUT_BYTES:
                        raise SessionFailed(f"the command printed more than {MOST_OUTPUT_BYTES} bytes; use open_exec")
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
    except TimeoutError as error:
        if isinstance(error, RunyardError):
            raise
        raise WaitTimeout(f"the command has not ended after {timeout} seconds; it may go on in the container") from None
    return ExecResult(session.exit_code or 0, bytes(kept["stdout"]), bytes(kept["stderr"]))


async def _send_input(session: AsyncSession, content: bytes | None) -> None:
    if content is not None:
        with suppress(RunyardError):  # the command has ended without reading it all
            await session.send(content)
            await session.close_input()


class _Forwarding:
    """A port of this machine that leads to a port of a run."""

    def __init__(self, transport: AsyncTransport, call: Call, on_problem: OnProblem | None) -> None:
        self._transport = transport
        self._call = call
        self._on_problem = on_problem or _log_problem
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, host: str, port: int) -> asyncio.Server:
        """Accept connections. Raises `ArgumentError` if the port cannot be used."""
        try:
            server = await asyncio.start_server(self._accept, host, port, limit=READ_BYTES)
        except (OSError, OverflowError) as error:
            words = getattr(error, "strerror", None) or str(error)
            raise ArgumentError(f"cannot listen on port {port} of {host}: {words}; port 0 is any free one") from None
        return server

    async def end_connections(self) -> None:
        """Close all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - asyncio starts a task for each connection
        self._tasks.add(task)
        try:
            async with open_web_socket(self._transport, self._call) as socket:
                await _relay(reader, writer, socket)
        except RunyardError as error:
            self._on_problem(error)
        except OSError:  # the local side is gone
            pass
        finally:
            self._tasks.discard(task)
            writer.close()


@asynccontextmanager
async def forward_port(
    transport: AsyncTransport, call: Call, *, host: str, port: int, on_problem: OnProblem | None
) -> AsyncIterator[PortForward]:
    """Listen, and connect what comes to a port of a run, until the block ends.

    Raises `ArgumentError` and `NotSupported`.
    """
    engine = await transport.fetch(get("engine"))
    if "portforward" not in engine["capabilities"]:
        message = f"the engine {engine['engine'] or 'none'} of this server cannot forward ports"
        raise NotSupported(message, status=501, code=Code.ENGINE_CANNOT)
    forwarding = _Forwarding(transport, call, on_problem)
    server = await forwarding.listen(host, port)
    try:
        yield PortForward(*server.sockets[0].getsockname()[:2])
    finally:
        server.close()
        await forwarding.end_connections()


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, socket: AsyncWebSocket) -> None:
    """Pass bytes on in both directions until the run's side ends. Raises `RunyardError` if it could not connect."""
    try:
        async with asyncio.timeout(None) as silence:
            sending = asyncio.create_task(_send_all(reader, socket, silence))
            try:
                await _receive_all(socket, writer, silence)
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
    except TimeoutError:
        return
    if socket.close_code not in (1000, None):
        raise SessionFailed(f"the connection ended early: {socket.end}")


async def _receive_all(socket: AsyncWebSocket, writer: asyncio.StreamWriter, silence: asyncio.Timeout) -> None:
    while (message := await socket.receive()) is not None:
        if silence.when() is not None:
            silence.reschedule(asyncio.get_running_loop().time() + HALF_CLOSED_SECONDS)
        if message[:1] == bytes([ERROR]):
            read_status(message[1:])
        elif message[:1] == bytes([STDIN]):
            writer.write(message[1:])
            await writer.drain()


async def _send_all(reader: asyncio.StreamReader, socket: AsyncWebSocket, silence: asyncio.Timeout) -> None:
    """Send what the local side writes; when it has ended, the silence that is waited for is limited."""
    left = HALF_CLOSED_SECONDS
    try:
        while data := await reader.read(READ_BYTES):
            for message in iter_messages(STDIN, data):
                await socket.send(message)
        await socket.send(END_OF_INPUT)
    except RunyardError:  # whoever receives reports it
        return
    except OSError:  # the local side is gone
        left = 0.0
    silence.reschedule(asyncio.get_running_loop().time() + left)


def _log_problem(error: RunyardError) -> None:
    _log.warning("a connection was not forwarded: %s", error)
