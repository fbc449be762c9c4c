"""What the log collector knows of the outputs that it follows, and the queue in which they wait for a slot."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field

from runyard.app.engine import Anchor, LogSource
from runyard.app.log_store import Stream, StreamInfo


@dataclass(slots=True, eq=False)
class FollowedSource:
    """An output that is not complete, and where it continues. It holds no bytes while it waits for more."""

    source: LogSource
    run: "FollowedRun"
    position: str | None = None
    """Of the engine, after the last bytes or gap that were stored."""
    stored_position: str | None = None
    """The position that is expected in the log store; another one was written by another replica."""
    offset: int = 0
    """Of the first byte after `position`."""
    size: int = 0
    """What is stored; more than `offset` after a crash, or if another replica follows it too."""
    failures: int = 0
    """Attempts in a row that brought nothing."""
    task: "asyncio.Task[None] | None" = None
    since: float | None = None
    """When it got its slot last, on the clock of the event loop; None: it never had one."""
    heard_at: float = 0.0
    """When something of it was stored last, on the same clock."""
    can_be_cancelled: bool = False
    """Whether its task only waits: for the engine, or for the next attempt to write."""
    is_stopping: bool = False
    """Whether it gives up its slot after the write in progress."""

    @property
    def stream(self) -> Stream:
        """Where it is stored."""
        return to_stream(self.source)

    def adopt(self, info: StreamInfo) -> None:
        """Continue after what is stored."""
        self.position = self.stored_position = info.position
        self.offset, self.size = info.position_offset, info.size

    def stop(self) -> None:
        """Ask it to give up its slot. A write in progress is completed."""
        self.is_stopping = True
        if self.task is not None and self.can_be_cancelled:
            self.task.cancel()


@dataclass(slots=True, eq=False)
class FollowedRun:
    """A run with outputs that are not complete, or with somebody who waits for them."""

    anchor: Anchor
    sources: dict[LogSource, FollowedSource] = field(default_factory=dict)
    """Not complete."""
    done: set[LogSource] = field(default_factory=set)
    """Complete, or left out because there are too many."""
    stored_bytes: int = 0
    """Of all its streams, for the limit per run."""
    waiters: set[asyncio.Event] = field(default_factory=set)
    """Set when an output is complete. Its outputs are urgent while somebody waits."""
    read_at: float | None = None
    """When somebody read its log, on the clock of the event loop; None: not lately, or others are read already."""

    @property
    def is_urgent(self) -> bool:
        """Whether somebody waits for the end of its log, or reads it."""
        return bool(self.waiters) or self.read_at is not None

    def add(self, source: LogSource, info: StreamInfo | None) -> FollowedSource:
        """Begin with an output, from what is stored of it."""
        one = FollowedSource(source, self)
        if info is not None:
            one.adopt(info)
        self.sources[source] = one
        return one

    def complete(self, source: LogSource) -> None:
        """All of an output is stored."""
        self.sources.pop(source, None)
        self.done.add(source)
        for waiter in self.waiters:
            waiter.set()


class FairQueue:
    """Outputs that wait for a slot: those of urgent runs first, then those that never had one.

    Among equals, one of each run in turn (round robin). Most runs have one output, for which a list takes the least.
    """

    def __init__(self) -> None:
        self._urgent: OrderedDict[str, list[FollowedSource]] = OrderedDict()
        self._new: OrderedDict[str, list[FollowedSource]] = OrderedDict()
        self._others: OrderedDict[str, list[FollowedSource]] = OrderedDict()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def urgent(self) -> int:
        """How many urgent ones wait."""
        return sum(map(len, self._urgent.values()))

    def put(self, one: FollowedSource) -> None:
        """At the end."""
        lines = self._urgent if one.run.is_urgent else self._new if one.since is None else self._others
        lines.setdefault(one.source.run_uid, []).append(one)
        self._length += 1

    def take(self) -> FollowedSource | None:
        """The next one."""
        for lines in (self._urgent, self._new, self._others):
            if lines:
                run_uid, line = lines.popitem(last=False)
                one = line.pop(0)
                if line:
                    lines[run_uid] = line
                self._length -= 1
                return one
        return None

    def promote(self, run_uid: str) -> None:
        """The run has become urgent."""
        for lines in (self._new, self._others):
            line = lines.pop(run_uid, None)
            if line is not None:
                self._urgent.setdefault(run_uid, []).extend(line)

    def discard(self, run_uid: str) -> None:
        """Remove all of a run."""
        for lines in (self._urgent, self._new, self._others):
            self._length -= len(lines.pop(run_uid, ()))


def to_stream(source: LogSource) -> Stream:
    """Where an output is stored."""
    return Stream(source.run_uid, source.pod, source.container, source.instance)
