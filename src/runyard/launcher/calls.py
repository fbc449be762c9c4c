"""Calls of user code: plain functions, coroutines, and generators of both sorts."""

import inspect
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from typing import Any

from .failures import (
    DONE,
    HANDLER_FAILED,
    BadResult,
    NotPrepared,
    NotReported,
    Terminated,
    UserError,
    print_traceback,
)
from .signals import StopSignal

MOST_YIELDED = 1000
"""Values of a generator that are kept as results; dicts are merged and do not count."""


class Yielded(dict[str, Any]):
    """The results of a generator that returned nothing: its values by name."""

    count = 0

    def collect(self, value: Any) -> None:
        """Keep a value that was yielded: a dict by its keys, another value as `output_0`, `output_1`, …"""
        if isinstance(value, dict):
            self.update(value)
            return
        if self.count < MOST_YIELDED:
            self[f"output_{self.count}"] = value
        elif self.count == MOST_YIELDED:
            sys.stderr.write(f"runyard: the handler yielded more than {MOST_YIELDED} values; the rest is not stored\n")
        self.count += 1


def call_function(stop: StopSignal, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of user code, awaited or iterated to its end; raises `UserError` for whatever it raises.

    A process that the code forked and that comes back here ends: it must not report the run a second time.
    """
    pid, code = os.getpid(), DONE
    try:
        return finish(stop, function(*args, **kwargs))
    except SystemExit as error:
        code = HANDLER_FAILED
        return _read_exit(error)
    except (BadResult, NotPrepared, NotReported, Terminated, UserError):
        code = HANDLER_FAILED
        raise
    except BaseException as error:
        code = HANDLER_FAILED
        if os.getpid() != pid:
            print_traceback(error)
        raise UserError(error) from error
    finally:
        if os.getpid() != pid:
            os._exit(code)


def finish(stop: StopSignal, value: Any) -> Any:
    """What a call leads to: the result of a coroutine, the return value or the values of a generator."""
    if inspect.isgenerator(value):
        return _exhaust(value)
    if inspect.isasyncgen(value):
        return _run_loop(stop, _exhaust_async(value))
    return _run_loop(stop, _await(value)) if inspect.isawaitable(value) else value


def _exhaust(generator: Generator[Any, Any, Any]) -> Any:
    """The generator's return value; if that is None, the values that it yielded."""
    collected, returned = Yielded(), None

    def delegate() -> Generator[Any, None, None]:
        nonlocal returned
        returned = yield from generator

    for value in delegate():
        collected.collect(value)
    return collected if returned is None else returned


async def _exhaust_async(generator: AsyncIterator[Any]) -> Any:
    collected = Yielded()
    async for value in generator:
        collected.collect(value)
    return collected


async def _await(value: Awaitable[Any]) -> Any:
    return await value


def _run_loop(stop: StopSignal, coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run it in an event loop; SIGTERM cancels it, so that its `finally` blocks may await."""
    import asyncio  # noqa: PLC0415 - takes a tenth of the start, and most handlers need none

    async def run() -> Any:
        task, loop = asyncio.ensure_future(coroutine), asyncio.get_running_loop()
        with stop.redirect(lambda: loop.call_soon_threadsafe(task.cancel)):
            return await task

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        if stop.is_received:
            raise Terminated from None
        raise


def _read_exit(error: SystemExit) -> None:
    """`sys.exit()` in a handler ends the run as it would end a program."""
    if error.code is None or error.code == DONE:
        return
    code = error.code & 0xFF if isinstance(error.code, int) else HANDLER_FAILED
    raise UserError(error, code=code or HANDLER_FAILED) from error
