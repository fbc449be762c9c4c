"""`kubectl exec` into a process of this machine. With a terminal, standard output and error are one."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from runyard.node.providers.local.exec_channels import (
    ERROR,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    ChannelError,
    Channels,
    FromClient,
    SpdyChannels,
    WebSocketChannels,
)
from runyard.node.providers.local.terminals import Terminal
from runyard.node.providers.provider import ProviderRefused
from runyard.procs import is_supervised, read_kernel_file, read_state

CHUNK_BYTES = 32 << 10
MOST_PENDING = 16
"""Chunks that wait for the client; the command waits then."""
LAST_OUTPUT_SECONDS = 5.0
"""How long output is read after the command's end, where a child of it keeps the pipe open. While the client does not
take what was read, the time stands still."""
_LOOK_SECONDS = 0.1
MOST_ENVIRONMENT_BYTES = 1 << 20
OPEN_SECONDS = 30.0
"""How long a client may take to open its channels."""
_TRUE = frozenset({"1", "true"})


@dataclass(frozen=True, slots=True)
class ExecRequest:
    """What was asked for."""

    command: Sequence[str]
    has_stdin: bool
    has_stdout: bool
    has_stderr: bool
    has_terminal: bool
    channels: Channels


def read_request(query: Sequence[tuple[str, str]], headers: Mapping[str, str]) -> ExecRequest:
    """Check the upgrade and the query of an exec; raises `ProviderRefused`."""
    flags = {name for name, value in query if value.lower() in _TRUE}
    command = [value for name, value in query if name == "command"]
    if not command or not all(command):
        raise ProviderRefused("BadRequest", "exec needs a command")
    has_terminal = "tty" in flags
    has_stderr = "error" in flags and not has_terminal
    given = {name.lower(): value for name, value in headers.items()}
    return ExecRequest(
        command,
        has_stdin="input" in flags,
        has_stdout="output" in flags,
        has_stderr=has_stderr,
        has_terminal=has_terminal,
        channels=_choose_channels(given, flags, has_stderr=has_stderr),
    )


def _choose_channels(given: Mapping[str, str], flags: set[str], *, has_stderr: bool) -> Channels:
    match given.get("upgrade", "").lower():
        case "websocket" if "sec-websocket-key" in given:
            return WebSocketChannels(given, has_stdout="output" in flags)
        case "spdy/3.1":
            asked = {STDIN: "input" in flags, STDOUT: "output" in flags, STDERR: has_stderr, RESIZE: "tty" in flags}
            return SpdyChannels(given, needed=frozenset({ERROR, *(one for one, is_so in asked.items() if is_so)}))
    raise ProviderRefused("NotSupported", "exec needs an upgrade to websocket or SPDY/3.1")


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
    """Implements `Tunnel`: bytes of a WebSocket or of SPDY, whose server is here."""

    def __init__(
        self, process: asyncio.subprocess.Process, request: ExecRequest, terminal: Terminal | None = None
    ) -> None:
        self._process = process
        self._terminal = terminal
        self._request = request
        self._channels = request.channels
        self._ready = asyncio.Event()
        if self._channels.is_ready:
            self._ready.set()
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue(MOST_PENDING)
        self._is_over = False
        self._is_refused = False

    @property
    def headers(self) -> Sequence[tuple[str, str]]:
        """Of the 101."""
        return self._channels.headers

    async def receive(self) -> bytes:
        """The next frame for the client; empty at the end."""
        if self._is_over:
            return b""
        data = await self._outgoing.get()
        self._is_over = not data
        return data

    async def send(self, data: bytes) -> None:
        """Bytes of the client: input for the command, pings, the end. Nothing is kept of what follows an error."""
        if self._is_refused:
            return
        try:
            found = self._channels.feed(data)
        except ChannelError:
            self._is_refused = True
            self.kill()
            return
        if self._channels.is_ready:
            self._ready.set()
        for one in found:
            if one.reply:
                await self._outgoing.put(one.reply)
            if one.is_farewell:
                self.kill()
            elif one.channel is not None:
                await self._take_input(one)

    async def close_sending(self) -> None:
        """The client is gone."""
        self.kill()

    async def run(self) -> None:
        """Copy output until the command has ended, then say how."""
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await self._ready.wait()
        except TimeoutError:
            self.kill()
            await self._outgoing.put(b"")
            return
        if first := self._channels.begin():
            await self._outgoing.put(first)
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
        await self._outgoing.put(self._channels.finish(status))
        await self._outgoing.put(b"")

    async def _wait_last_output(self, pumps: Sequence[asyncio.Task[None]]) -> None:
        clock = asyncio.get_running_loop().time
        left_seconds = LAST_OUTPUT_SECONDS
        while left_seconds > 0 and (reading := [pump for pump in pumps if not pump.done()]):
            began = clock()
            await asyncio.wait(reading, timeout=_LOOK_SECONDS)
            if not self._outgoing.full():
                left_seconds -= clock() - began

    async def _copy(self, channel: int, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(CHUNK_BYTES):
            if encoded := self._channels.encode(channel, chunk):
                await self._outgoing.put(encoded)

    async def _take_input(self, given: FromClient) -> None:
        stdin = self._process.stdin
        if self._terminal is not None:
            await self._take_typed(self._terminal, given)
            return
        if stdin is None or given.channel != STDIN:
            return
        with suppress(ConnectionError):  # The command does not read any more; its end says the rest.
            if given.payload:
                stdin.write(given.payload)
                await stdin.drain()
            if given.is_last:
                stdin.close()

    async def _take_typed(self, terminal: Terminal, given: FromClient) -> None:
        if given.channel == RESIZE:
            terminal.resize(given.payload)
        elif given.channel == STDIN and given.payload and self._request.has_stdin:
            with suppress(ConnectionError):
                await terminal.write(given.payload)

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
