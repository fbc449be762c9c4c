"""Follows the log of a run over as many connections as it takes; `LogReader` knows what was delivered."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from time import monotonic
from typing import Any

import httpx2

from runyard.sdk.aio.transport import AsyncTransport
from runyard.sdk.calls import Call
from runyard.sdk.connections import is_permanent, make_connection_error
from runyard.sdk.errors import ApiError, Refused, RunyardError, ServerFailed, ServerUnreachable, TooManyRequests
from runyard.sdk.log_reader import LogLine, LogReader
from runyard.sdk.retry import Attempts
from runyard.sdk.run_progress import MOST_LINE, MOST_LINES
from runyard.spec.problem_codes import Code

_FIRST_ONLY = ("tail",)

IsComplete = Callable[[], Coroutine[Any, Any, bool]]
"""Whether the log is complete, as the server says."""
OnAway = Callable[[RunyardError], None]
"""Called when the server is away and another attempt follows."""


async def follow_log(
    transport: AsyncTransport, call: Call, *, is_complete: IsComplete | None = None, on_away: OnAway | None = None
) -> AsyncIterator[LogLine]:
    """Yield the lines of a log until it is complete. Raises `RunyardError` if the server stays away.

    `is_complete` is asked when a response has ended properly: a proxy may have ended it.
    """
    reader = LogReader()
    attempts = Attempts(transport.follow_seconds, now=monotonic())
    while True:
        failure: RunyardError | None
        try:
            async for line in _read_response(transport, _continue(call, reader), reader, attempts):
                yield line
        except (httpx2.TransportError, ApiError) as error:
            failure = _judge(error, reader, endpoint=transport.credentials.endpoint)
        else:
            if reader.end_reason is None and (is_complete is None or await is_complete()):
                break
            failure = ServerUnreachable(f"the log ended early: {reader.end_reason or 'the connection was closed'}")
        for line in reader.finish():
            yield line
        if failure is not None:
            await _pause(attempts, failure, on_away=on_away)
    for line in reader.flush():
        yield line


async def read_tail(transport: AsyncTransport, call: Call) -> list[str]:
    """The lines of one response, cut to what a view has room for. Empty if there is no log now: the view goes on."""
    reader, attempts = LogReader(), Attempts(0, now=monotonic())
    lines = deque[str](maxlen=MOST_LINES)
    try:
        async for line in _read_response(transport, call, reader, attempts):
            lines.append(line.text[:MOST_LINE])
    except (httpx2.TransportError, RunyardError):
        pass
    lines.extend(line.text[:MOST_LINE] for line in reader.flush())
    return list(lines)


async def _read_response(
    transport: AsyncTransport, call: Call, reader: LogReader, attempts: Attempts
) -> AsyncIterator[LogLine]:
    async with transport.stream(call) as response:
        reader.begin({name.lower(): value for name, value in response.headers.items()})
        async for chunk in response.aiter_bytes():
            attempts.reset(now=monotonic())
            for line in reader.feed(chunk):
                yield line
    for line in reader.finish():
        yield line


def _judge(error: Exception, reader: LogReader, *, endpoint: str) -> RunyardError | None:
    """Why there must be a pause before the next attempt; None if there need not be. Raises what no attempt cures."""
    if isinstance(error, httpx2.ReadTimeout):
        return None  # silent for long: ask again, from where it stopped
    if isinstance(error, httpx2.TransportError):
        failure = make_connection_error(error, endpoint)
        if is_permanent(error):
            raise failure from error
        return failure
    if isinstance(error, ServerFailed | TooManyRequests):
        return error
    is_ambiguous = isinstance(error, Refused) and any(each.code == Code.LOG_STREAMS for each in error.problems)
    if not is_ambiguous or reader.offset is None:
        raise error
    reader.give_up_offset()
    return None


async def _pause(attempts: Attempts, failure: RunyardError, *, on_away: OnAway | None) -> None:
    pause = attempts.find_pause(now=monotonic())
    if pause is None:
        raise failure
    if on_away is not None:
        on_away(failure)
    await asyncio.sleep(pause)


def _continue(call: Call, reader: LogReader) -> Call:
    """The call that continues where the reader is."""
    if not reader.has_begun:
        return call
    query = {name: value for name, value in call.query.items() if name not in _FIRST_ONLY}
    if reader.offset is not None:
        query["offset"] = reader.offset
    return replace(call, query=query)
