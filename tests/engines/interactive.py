"""The engine in memory with the optional capabilities: sessions that programs of the test answer, and usage."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from runyard.app.engine import Anchor, ChannelId, EngineRefusal, Session, Usage
from tests.engines.memory import MemoryEngine

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
SUCCESS = {"metadata": {}, "status": "Success"}
QUEUED = 4
"""Messages that a channel keeps in either direction before its writer waits."""


class Container:
    """The other side of a session: what a command in a container sees. `app.engine.Channel` is `channel`."""

    def __init__(self, anchor: Anchor, session: Session, *, port: int | None = None) -> None:
        self.anchor = anchor
        self.session = session
        self.port = port
        self.sizes: list[dict[str, int]] = []
        self._new_sizes: asyncio.Queue[dict[str, int]] = asyncio.Queue()
        self.is_closed = asyncio.Event()
        """Set when the server has closed the channel."""
        self._input: asyncio.Queue[bytes | None] = asyncio.Queue(QUEUED)
        self._output: asyncio.Queue[tuple[ChannelId, bytes] | Exception | None] = asyncio.Queue(QUEUED)
        self.most_output = 0
        self.written = 0

    async def read(self) -> bytes | None:
        """What came on stdin; None at its end."""
        return await self._input.get()

    async def write(self, content: bytes, *, channel: ChannelId = ChannelId.STDOUT) -> None:
        """Write, as fast as it is read on the other side."""
        await self._output.put((channel, content))
        self.written += len(content)

    async def exit(self, code: int = 0) -> None:
        """End the command."""
        status: dict[str, Any] = SUCCESS
        if code:
            cause = {"reason": "ExitCode", "message": str(code)}
            status = {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [cause]}}
        await self.write(json.dumps(status).encode(), channel=ChannelId.ERROR)
        await self.leave()

    async def fail_with_status(self, message: str) -> None:
        """End with a failure that is no exit code."""
        await self.write(json.dumps({"status": "Failure", "message": message}).encode(), channel=ChannelId.ERROR)
        await self.leave()

    async def read_size(self) -> dict[str, int]:
        """The next size of the terminal."""
        return await self._new_sizes.get()

    async def leave(self) -> None:
        """End without a status."""
        await self._output.put(None)

    def write_now(self, content: bytes) -> None:
        """Write, unless the other side does not read."""
        if not self._output.full():
            self._output.put_nowait((ChannelId.STDOUT, content))

    async def fail(self, error: Exception) -> None:
        """Break the connection."""
        await self._output.put(error)

    async def send(self, channel: ChannelId, content: bytes) -> None:
        """`Channel.send`."""
        if channel is ChannelId.RESIZE:
            self.sizes.append(json.loads(content))
            self._new_sizes.put_nowait(self.sizes[-1])
        else:
            await self._input.put(None if channel is ChannelId.CLOSE else content)

    async def receive(self) -> AsyncIterator[tuple[ChannelId, bytes]]:
        """`Channel.receive`."""
        while (message := await self._output.get()) is not None:
            if isinstance(message, Exception):
                raise message
            yield message

    async def close(self) -> None:
        """`Channel.close`."""
        self.is_closed.set()


Program = Callable[[Container], Awaitable[None]]


async def echo(container: Container) -> None:
    """`cat`: ends with its input."""
    while (content := await container.read()) is not None:
        await container.write(content)
    await container.exit()


class InteractiveEngine(MemoryEngine):
    """`Interactive` and `Metered`. `program` is what every session talks to."""

    def __init__(self, place: str = "a") -> None:
        super().__init__(place)
        self.program: Program = echo
        self.containers: list[Container] = []
        self.usage: list[Usage] = []
        self.disk_bytes = 0
        self.is_running = True
        self._tasks: set[asyncio.Task[None]] = set()

    async def open_exec(self, anchor: Anchor, session: Session) -> Container:
        """Start the program."""
        await self._enter("open_exec")
        return self._open(Container(anchor, session))

    async def open_attach(self, anchor: Anchor, session: Session) -> Container:
        """Attach to the program."""
        await self._enter("open_attach")
        return self._open(Container(anchor, session))

    async def open_port(self, anchor: Anchor, port: int, *, pod: str | None = None) -> Container:
        """Connect to the program."""
        await self._enter("open_port")
        return self._open(Container(anchor, Session(pod=pod, has_stdin=True), port=port))

    async def list_usage(self, anchor: Anchor) -> Sequence[Usage]:
        """What the test says."""
        await self._enter("list_usage")
        return self.usage

    async def sum_disk_bytes(self, _anchor: Anchor) -> int:
        """What the test says."""
        return self.disk_bytes

    async def close(self) -> None:
        """End the programs."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _open(self, container: Container) -> Container:
        if not self.is_running:
            raise EngineRefusal("run.not_running", f"no container of run {container.anchor.run_id} runs")
        self.containers.append(container)
        task = asyncio.ensure_future(self.program(container))
        self._tasks.add(task)
        return container
