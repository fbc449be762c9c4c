"""Logs of containers: raw output in a file per instance, read in chunks, followed until the instance has ended."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

from runyard.node.providers.provider import LogOptions, ProviderRefused
from runyard.procs import is_supervised, log_path, read_state

CHUNK_BYTES = 64 << 10
FOLLOW_SECONDS = 0.2


def find_log(supervision: Path, container: str, options: LogOptions) -> tuple[Path, int]:
    """The file and the number of the instance that is asked for. Blocks; raises `ProviderRefused`."""
    if options.timestamps or options.since_seconds is not None or options.since_time is not None:
        raise ProviderRefused(
            "NotSupported",
            "the provider `local` keeps no times of log lines: leave out --timestamps, --since and --since-time",
        )
    state = read_state(supervision)
    numbers = [] if state is None else [each.instance for each in state.instances if each.command == container]
    position = 2 if options.previous else 1
    if len(numbers) < position:
        words = "has no previous instance" if options.previous else "has not started yet"
        raise ProviderRefused("NoLog", f"container {container} {words}")
    return log_path(supervision, container, numbers[-position]), numbers[-position]


async def iter_log(supervision: Path, path: Path, instance: int, options: LogOptions) -> AsyncIterator[bytes]:
    """Chunks of a log. Following ends with the instance: a restarted container has a new log."""
    left = options.limit_bytes
    try:
        file = await asyncio.to_thread(path.open, "rb")
    except FileNotFoundError as error:
        raise ProviderRefused("NoLog", "the log of that instance was removed") from error
    with file:
        await asyncio.to_thread(_seek_tail, file, options.tail_lines)
        while left is None or left > 0:
            # First whether it has ended, then the rest: so nothing that was written before the end is missed.
            is_over = not options.follow or await asyncio.to_thread(_is_over, supervision, instance)
            while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES if left is None else min(CHUNK_BYTES, left)):
                left = None if left is None else left - len(chunk)
                yield chunk
            if is_over:
                return
            await asyncio.sleep(FOLLOW_SECONDS)


def _is_over(supervision: Path, instance: int) -> bool:
    state = read_state(supervision)
    if state is None or state.is_ended or not is_supervised(supervision):
        return True
    own = (each for each in state.instances if each.command == supervision.name)
    found = next((each for each in own if each.instance == instance), None)
    return found is None or found.ended_at is not None


def _seek_tail(file: BinaryIO, lines: int | None) -> None:
    """Go to where the last `lines` lines begin, reading backwards."""
    if lines is None:
        return
    end = position = file.seek(0, 2)
    wanted = lines
    while position > 0 and lines > 0:
        start = max(0, position - CHUNK_BYTES)
        file.seek(start)
        block = file.read(position - start)
        offset = len(block)
        while (offset := block.rfind(b"\n", 0, offset)) >= 0:
            if start + offset == end - 1:
                continue  # The newline of the last line ends it, and begins none.
            wanted -= 1
            if wanted == 0:
                file.seek(start + offset + 1)
                return
        position = start
    file.seek(0 if lines > 0 else end)
