"""The sessions of `aio` for the sync client: an event loop in a thread moves both directions while the caller waits."""

import asyncio
from asyncio import to_thread
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import AbstractAsyncContextManager, contextmanager
from threading import Thread
from typing import Any, Generic, TypeVar

from runyard.sdk.aio.transport import AsyncTransport
from runyard.sdk.calls import Call
from runyard.sdk.errors import SessionFailed
from runyard.sdk.sessions import aio
from runyard.sdk.sessions.channels import ExecResult, OnProblem, Output, PortForward
from runyard.sdk.sync.transport import Transport

T = TypeVar("T")


class Session:
    """A command in a container. `for output in session` yields what it prints, until it has ended.

    One thread reads; others may send meanwhile.
    """

    def __init__(self, session: aio.AsyncSession, call: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._session = session
        self._call = call

    @property
    def exit_code(self) -> int | None:
        """The command's exit code, once it has ended; 0 if the session knows none."""
        return self._session.exit_code

    def send(self, content: bytes) -> None:
        """Send input; waits while the command does not read. Raises `ServerUnreachable` once it has ended."""
        self._call(self._session.send(content))

    def close_input(self) -> None:
        """End the input; the output goes on."""
        self._call(self._session.close_input())

    def resize(self, columns: int, rows: int) -> None:
        """Tell the command the size of its terminal."""
        self._call(self._session.resize(columns, rows))

    def __iter__(self) -> Iterator[Output]:
        outputs = aiter(self._session)

        async def read_next() -> Output | None:
            return await anext(outputs, None)

        while (output := self._call(read_next())) is not None:
            yield output


def execute(transport: Transport, call: Call, *, content: bytes | None, timeout: float | None) -> ExecResult:
    """Execute a command to its end. Raises `RunyardError`; `WaitTimeout` after `timeout` seconds."""
    with _LoopThread(transport) as thread:
        result: ExecResult = thread.call(aio.execute(thread.transport, call, content=content, timeout=timeout))
    return result


@contextmanager
def open_session(transport: Transport, call: Call) -> Iterator[Session]:
    """Open a session; it ends with the block. Raises `RunyardError`."""
    with _LoopThread(transport) as thread, thread.hold(aio.open_session(thread.transport, call)) as session:
        yield Session(session, thread.call)


@contextmanager
def forward_port(
    transport: Transport, call: Call, *, host: str, port: int, on_problem: OnProblem | None
) -> Iterator[PortForward]:
    """Listen, and connect what comes to a port of a run, until the block ends.

    Raises `ArgumentError` and `NotSupported`.
    """
    with _LoopThread(transport) as thread:
        opening = aio.forward_port(thread.transport, call, host=host, port=port, on_problem=on_problem)
        with thread.hold(opening) as forward:
            yield forward


class _BorrowedTransport(AsyncTransport):
    """Signs in as a sync transport does, which refreshes the tokens: a refresh token is accepted once."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport.credentials, timeout=transport.timeout)
        self._owner = transport

    async def refresh(self, used: str | None) -> bool:
        is_refreshed = await to_thread(self._owner.refresh, used)
        self.credentials = self._owner.credentials
        return is_refreshed


class _LoopThread:
    """An event loop in a thread, for as long as a `with` lasts."""

    def __init__(self, transport: Transport) -> None:
        self._owner = transport
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="runyard-session", daemon=True)
        self.transport: AsyncTransport

    def __enter__(self) -> "_LoopThread":
        self._thread.start()
        self.transport = _BorrowedTransport(self._owner)
        return self

    def __exit__(self, *_error: object) -> None:
        self.call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop, and wait for it. Raises `SessionFailed` if the block has ended meanwhile."""
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
        except (CancelledError, RuntimeError) as error:
            coroutine.close()
            if isinstance(error, RuntimeError) and not self._loop.is_closed():
                raise
            raise SessionFailed("the session has ended") from None

    @contextmanager
    def hold(self, opening: AbstractAsyncContextManager[T]) -> Iterator[T]:
        """Enter a context in the loop, in one task that also leaves it."""
        held = _Held(opening)
        value = self.call(held.start())
        try:
            yield value
        finally:
            self.call(held.end())

    async def _end(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self.transport.aclose()
        await self._loop.shutdown_asyncgens()
        await self._loop.shutdown_default_executor()


class _Held(Generic[T]):
    """A context that one task enters and leaves."""

    def __init__(self, opening: AbstractAsyncContextManager[T]) -> None:
        self._opening = opening
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> T:
        entered = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(entered))
        await asyncio.wait({entered, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if not entered.done():
            self._task.result()
        value: T = entered.result()
        return value

    async def end(self) -> None:
        self._stop.set()
        if self._task is not None:
            await self._task

    async def _run(self, entered: "asyncio.Future[T]") -> None:
        async with self._opening as value:
            entered.set_result(value)
            await self._stop.wait()
