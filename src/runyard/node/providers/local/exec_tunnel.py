"""`kubectl exec` into a process of this machine: Kubernetes' channel protocol over a WebSocket, v4 and v5.

Channels: 0 stdin, 1 stdout, 2 stderr, 3 the result as a Status, 4 the size of a terminal, and in v5 255, which closes
another channel. With a terminal, standard output and error are one.
"""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from runyard.node.providers.local.terminals import Terminal
from runyard.node.providers.local.websocket_frames import (
    BINARY,
    CLOSE,
    PING,
    PONG,
    FrameError,
    FrameParser,
    accept_key,
    encode_frame,
)
from runyard.node.providers.provider import ProviderRefused
from runyard.procs import is_supervised, read_kernel_file, read_state

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSED = 0, 1, 2, 3, 4, 255
CHUNK_BYTES = 32 << 10
MOST_PENDING = 16
"""Chunks that wait for the client; the command waits then."""
LAST_OUTPUT_SECONDS = 5.0
"""How long output is read after the command's end, where a child of it keeps the pipe open. While the client does not
take what was read, the time stands still."""
_LOOK_SECONDS = 0.1
MOST_ENVIRONMENT_BYTES = 1 << 20
_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_TRUE = frozenset({"1", "true"})


@dataclass(frozen=True, slots=True)
class ExecRequest:
    """What was asked for."""

    command: Sequence[str]
    has_stdin: bool
    has_stdout: bool
    has_stderr: bool
    has_terminal: bool
    protocol: str
    key: str


def read_request(query: Sequence[tuple[str, str]], headers: Mapping[str, str]) -> ExecRequest:
    """Check the upgrade and the query of an exec; raises `ProviderRefused`."""
    given = {name.lower(): value for name, value in headers.items()}
    flags = {name for name, value in query if value.lower() in _TRUE}
    if given.get("upgrade", "").lower() != "websocket" or "sec-websocket-key" not in given:
        raise ProviderRefused("NotSupported", "the provider `local` speaks WebSocket only, and not SPDY")
    offered = [name.strip() for name in given.get("sec-websocket-protocol", "").split(",")]
    protocol = next((name for name in _PROTOCOLS if name in offered), None)
    if protocol is None:
        raise ProviderRefused("NotSupported", f"none of the protocols is known; known are {', '.join(_PROTOCOLS)}")
    command = [value for name, value in query if name == "command"]
    if not command or not all(command):
        raise ProviderRefused("BadRequest", "exec needs a command")
    return ExecRequest(
        command,
        has_stdin="input" in flags,
        has_stdout="output" in flags,
        has_stderr="error" in flags,
        has_terminal="tty" in flags,
        protocol=protocol,
        key=given["sec-websocket-key"],
    )


@asynccontextmanager
async def open_exec(supervision: Path, container: str, request: ExecRequest) -> AsyncIterator["ExecTunnel"]:
    """Run the command beside the container's process; whatever is left of it is killed at the end of the block."""
    argv, env, cwd = await asyncio.to_thread(_find_surroundings, supervision, container, request.command)
    async with AsyncExitStack() as stack:
        terminal: Terminal | None = None
        if request.has_terminal:
            terminal = await Terminal.open()
            stack.callback(terminal.close)
            # `setsid --ctty` makes it the controlling terminal, so that Ctrl-C is a signal.
            argv, env = ["setsid", "--ctty", *argv], {"TERM": "xterm", **env}
        try:
            process = await _start(argv, request, terminal, env=env, cwd=cwd)
        except (OSError, ValueError) as error:
            raise ProviderRefused("StartError", f"the command cannot be started: {error}") from error
        tunnel = ExecTunnel(process, request, terminal)
        running = asyncio.create_task(tunnel.run())
        try:
            yield tunnel
        finally:
            running.cancel()
            tunnel.kill()
            await asyncio.gather(running, return_exceptions=True)
            await process.wait()


async def _start(
    argv: Sequence[str], request: ExecRequest, terminal: Terminal | None, *, env: Mapping[str, str], cwd: str
) -> asyncio.subprocess.Process:
    """The process leads a session of its own, which ends with it."""
    if terminal is not None:
        slave = terminal.slave
        process = await asyncio.create_subprocess_exec(*argv, stdin=slave, stdout=slave, stderr=slave, env=env, cwd=cwd)
        terminal.close_slave()
        return process
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    return await asyncio.create_subprocess_exec(
        *argv,
        stdin=pipe if request.has_stdin else nothing,
        stdout=pipe if request.has_stdout else nothing,
        stderr=pipe if request.has_stderr else nothing,
        env=env,
        cwd=cwd,
        start_new_session=True,
    )


class ExecTunnel:
    """Implements `Tunnel`: bytes of a WebSocket whose server is here."""

    def __init__(
        self, process: asyncio.subprocess.Process, request: ExecRequest, terminal: Terminal | None = None
    ) -> None:
        self._process = process
        self._terminal = terminal
        self._request = request
        self._parser = FrameParser()
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue(MOST_PENDING)
        self._is_over = False

    @property
    def headers(self) -> Sequence[tuple[str, str]]:
        """Of the 101."""
        return (
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Accept", accept_key(self._request.key)),
            ("Sec-WebSocket-Protocol", self._request.protocol),
        )

    async def receive(self) -> bytes:
        """The next frame for the client; empty at the end."""
        if self._is_over:
            return b""
        data = await self._outgoing.get()
        self._is_over = not data
        return data

    async def send(self, data: bytes) -> None:
        """Bytes of the client: input for the command, pings, the end."""
        try:
            messages = self._parser.feed(data)
        except FrameError:
            self.kill()
            return
        for message in messages:
            if message.opcode == PING:
                await self._outgoing.put(encode_frame(PONG, message.payload))
            elif message.opcode == CLOSE:
                self.kill()
            elif message.opcode == BINARY and message.payload:
                await self._take_input(message.payload)

    async def close_sending(self) -> None:
        """The client is gone."""
        self.kill()

    async def run(self) -> None:
        """Copy output until the command has ended, then say how."""
        first = STDOUT if self._request.has_stdout else ERROR
        await self._outgoing.put(encode_frame(BINARY, bytes((first,))))  # As a kubelet: the connection is established.
        printed = self._process.stdout if self._terminal is None else self._terminal.reader
        pumps = [
            asyncio.create_task(self._copy(channel, stream))
            for channel, stream in ((STDOUT, printed), (STDERR, self._process.stderr))
            if stream is not None
        ]
        try:
            code = await self._process.wait()
            await self._wait_last_output(pumps)
        finally:
            for pump in pumps:
                pump.cancel()
        status = json.dumps(render_result(code)).encode()
        for frame in (encode_frame(BINARY, bytes((ERROR,)) + status), encode_frame(CLOSE, b"\x03\xe8"), b""):
            await self._outgoing.put(frame)

    async def _wait_last_output(self, pumps: Sequence[asyncio.Task[None]]) -> None:
        clock = asyncio.get_running_loop().time
        left_seconds = LAST_OUTPUT_SECONDS
        while left_seconds > 0 and (reading := [pump for pump in pumps if not pump.done()]):
            began = clock()
            await asyncio.wait(reading, timeout=_LOOK_SECONDS)
            if not self._outgoing.full():
                left_seconds -= clock() - began

    async def _copy(self, channel: int, stream: asyncio.StreamReader) -> None:
        with suppress(OSError):  # How a terminal says that nobody prints to it any more.
            while chunk := await stream.read(CHUNK_BYTES):
                await self._outgoing.put(encode_frame(BINARY, bytes((channel,)) + chunk))

    async def _take_input(self, payload: bytes) -> None:
        stdin = self._process.stdin
        if self._terminal is not None:
            await self._take_typed(self._terminal, payload)
            return
        if stdin is None:
            return
        with suppress(ConnectionError):  # The command does not read any more; its end says the rest.
            if payload[0] == STDIN and len(payload) > 1:
                stdin.write(payload[1:])
                await stdin.drain()
            elif payload[0] == CLOSED and payload[1:] == bytes((STDIN,)):
                stdin.close()

    async def _take_typed(self, terminal: Terminal, payload: bytes) -> None:
        if payload[0] == RESIZE:
            terminal.resize(payload[1:])
        elif payload[0] == STDIN and self._request.has_stdin:
            with suppress(ConnectionError):
                await terminal.write(payload[1:])

    def kill(self) -> None:
        """End the command with everything of its session's group. Idempotent."""
        with suppress(ProcessLookupError):
            if os.getpgid(self._process.pid) == self._process.pid:
                os.killpg(self._process.pid, signal.SIGKILL)
            else:  # `setsid` has not begun its session yet
                self._process.kill()


def render_result(code: int) -> dict[str, object]:
    """The Status that ends an exec."""
    exit_code = 128 - code if code < 0 else code
    if exit_code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {exit_code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
    }


def _find_surroundings(
    supervision: Path, container: str, command: Sequence[str]
) -> tuple[list[str], dict[str, str], str]:
    """The command line, environment and working folder beside the container's process. Blocks."""
    state = read_state(supervision)
    own = (each for each in (state.instances if state else ()) if each.command == supervision.name)
    running = [each for each in own if each.ended_at is None]
    if not running or not is_supervised(supervision):
        raise ProviderRefused("NotRunning", f"container {container} does not run")
    process = Path("/proc", str(running[-1].pid))
    raw = read_kernel_file(str(process / "environ"), MOST_ENVIRONMENT_BYTES)
    pairs = (entry.partition(b"=") for entry in raw.split(b"\0") if b"=" in entry)
    env = {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
    try:
        cwd = str((process / "cwd").readlink())
        is_apart = (process / "ns/mnt").readlink() != Path("/proc/self/ns/mnt").readlink()
        is_other_user = (process / "ns/user").readlink() != Path("/proc/self/ns/user").readlink()
    except OSError as error:
        raise ProviderRefused("NotRunning", f"container {container} has just ended: {error}") from error
    if not is_apart:
        return [*command], env, cwd
    user = ["--user", "--preserve-credentials"] if is_other_user else []
    return ["nsenter", "--target", process.name, "--mount", *user, f"--wd={cwd}", "--", *command], env, "/"
