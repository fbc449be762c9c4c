"""The output of a run's processes, read from the files that its supervisors write. Positions are offsets in bytes."""

import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from runyard.app.engine import EngineUnavailable, LogChunk, LogGap, LogSource
from runyard.domain.reasons import Reason
from runyard.engines.local.folders.place_files import open_regular
from runyard.engines.local.folders.run_folders import AnchorRecord, RunFolder
from runyard.engines.local.observations import name_pod
from runyard.engines.local.pod_plans import MAIN
from runyard.procs import LOG_FOLDER, State, log_path, read_state

LARGEST_CHUNK_BYTES = 128 * 1024
"""How much of a log is read at once."""
MOST_LOG_SOURCES = 1000
"""How many outputs of a run are listed, the first ones: a service that restarts for ever has many."""
FIRST_PAUSE_SECONDS = 0.02
LONGEST_PAUSE_SECONDS = 0.5
"""How often a log that is followed is looked at, while nothing is written."""
STATE_SECONDS = 5.0
"""How often the state is read while a log is followed and nothing happens to its run: news may get lost."""
_LOG_NAME = re.compile(r"([A-Za-z0-9._-]{1,200})\.([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class _Piece:
    content: bytes
    size: int
    at: datetime


def list_sources(folder: RunFolder, anchor: AnchorRecord, releases: int) -> list[LogSource]:
    """The outputs of a run in the order in which they began."""
    found: list[LogSource] = []
    for release in range(1, releases + 1):
        names = _list_logs(folder.get_supervision_path(release))
        pod = name_pod(anchor, release)
        found += [LogSource(run_uid=anchor.run_uid, pod=pod, container=name, instance=number) for name, number in names]
        if len(found) >= MOST_LOG_SOURCES:
            break
    return found[:MOST_LOG_SOURCES]


def _list_logs(supervision: Path) -> list[tuple[str, int]]:
    """The commands and instances that have a log; steps come before the main command, as they run before it."""
    try:
        names = os.listdir(supervision / LOG_FOLDER)
    except (FileNotFoundError, NotADirectoryError):
        return []
    state = read_state(supervision)
    order: dict[str, int] = {}
    for index, one in enumerate(() if state is None else state.instances):
        order.setdefault(one.command, index)
    matches = [match for name in names if (match := _LOG_NAME.fullmatch(name)) is not None]
    found = [(match[1], int(match[2])) for match in matches]
    return sorted(found, key=lambda one: (one[0] == MAIN, order.get(one[0], -1), one))


async def follow(
    supervision: Path,
    source: LogSource,
    *,
    after: str | None,
    wait: Callable[[float], Awaitable[None]],
    get_news: Callable[[], object],
) -> AsyncIterator[LogChunk | LogGap]:
    """The output after a position. `wait` waits so many seconds, or until something happens to the run.

    `get_news` returns another object whenever something has happened to it: then the state is read again. Raises
    `EngineUnavailable` if the file cannot be read now.
    """
    path = log_path(supervision, source.container, source.instance)
    position, pause = _read_position(after), FIRST_PAUSE_SECONDS
    age, news, state = STATE_SECONDS, None, None
    while True:
        if age >= STATE_SECONDS or get_news() is not news:
            age, news, state = 0.0, get_news(), read_state(supervision)
        # The state is always older than the piece: what was written before the end is in the file then.
        piece = _read(path, position)
        if piece is None:
            yield _make_gap("the files of the run are gone", position)
            return
        if piece.size < position:
            yield _make_gap("the file of the log was cut", piece.size)
            position = piece.size
        elif piece.content:
            position += len(piece.content)
            yield LogChunk(content=piece.content, at=piece.at, position=str(position))
            pause = FIRST_PAUSE_SECONDS
        elif has_ended(state, source):
            break
        else:
            await wait(pause)
            age, pause = age + pause, min(pause * 2, LONGEST_PAUSE_SECONDS)
    if dropped := _count_dropped(state, source):
        yield _make_gap(f"{dropped} bytes more were written than are kept of one log", position)


def has_ended(state: State | None, source: LogSource) -> bool:
    """Whether nothing is written to an output anymore."""
    if state is None or state.is_ended:
        return True
    own = [one for one in state.instances if one.command == source.container]
    found = next((one for one in own if one.instance == source.instance), None)
    if found is not None:
        return found.ended_at is not None
    # The state lists the newest instances only.
    return any(one.instance > source.instance for one in own)


def _count_dropped(state: State | None, source: LogSource) -> int:
    instances = () if state is None else state.instances
    key = (source.container, source.instance)
    return next((one.dropped_bytes for one in instances if (one.command, one.instance) == key), 0)


def _read(path: Path, position: int) -> _Piece | None:
    """The bytes from a position on; None if the file is gone, or somebody put something else in its place."""
    try:
        descriptor = open_regular(path)
        if descriptor is None:
            return None
        try:
            found = os.fstat(descriptor)
            content = os.pread(descriptor, LARGEST_CHUNK_BYTES, position)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise EngineUnavailable(Reason.ENGINE_FAILED, f"the log cannot be read: {error.strerror}") from error
    return _Piece(content, found.st_size, datetime.fromtimestamp(found.st_mtime, UTC))


def _read_position(after: str | None) -> int:
    return int(after) if after is not None and after.isdecimal() else 0


def _make_gap(cause: str, position: int) -> LogGap:
    now = datetime.now(UTC)
    return LogGap(since=now, until=now, cause=cause, position=str(position))
