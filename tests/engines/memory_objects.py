"""What `MemoryEngine` keeps: the objects of runs, their output, and what subscribers have not read yet."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from runyard.app.engine import LARGEST_DETAILS_BYTES, MOST_ENDS, Anchor, ContainerEnd, Observation
from runyard.app.model import Json
from runyard.domain.effective_spec import EffectiveSpec
from runyard.domain.outcomes import Seen

SEEN = {
    "held": Seen.HELD,
    "pending": Seen.PENDING,
    "running": Seen.RUNNING,
    "stopping": Seen.RUNNING,
    "removing": Seen.RUNNING,
    "stopped": Seen.STOPPED,
    "succeeded": Seen.SUCCEEDED,
    "failed": Seen.FAILED,
}


@dataclass
class Output:
    """What one instance of a container wrote."""

    content: bytearray = field(default_factory=bytearray)
    lost: int = 0
    """How many bytes from the beginning cannot be read anymore."""
    is_ended: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Thing:
    """The objects of one run; their history is what observers may remember."""

    anchor: Anchor
    generation: int
    effective: EffectiveSpec
    phase: str = "held"
    """held, pending, running, stopping, stopped, succeeded, failed, removing"""
    was_released: bool = False
    has_secrets: bool = False
    is_settled: bool = False
    instance: int = 0
    epoch: int = 0
    ends: list[ContainerEnd] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)
    history: list[Observation] = field(default_factory=list)

    def note(self, *, reason: str | None = None, message: str | None = None) -> None:
        """Something changed."""
        last = self.history[-1] if self.history else None
        version = last.version + 1 if last is not None and last.epoch == self.epoch else 1
        self.history.append(
            Observation(
                run_uid=self.anchor.run_uid,
                uid=self.anchor.uid,
                seen=SEEN[self.phase],
                epoch=self.epoch,
                version=version,
                generation=self.generation,
                reason=reason,
                message=message,
                ends=tuple(self.ends[-MOST_ENDS:]),
                details=self.make_details(),
            )
        )

    def make_details(self) -> Json:
        """Its pod, and as many of the newest events as fit."""
        details: Json = {"pods": [{"name": f"{self.anchor.run_id}-0"}]} if self.phase in ("running", "stopping") else {}
        if self.events:
            details["events"] = keep_newest(self.events, most_bytes=LARGEST_DETAILS_BYTES - 1024)
        return details


class Subscriber:
    """One iterator of `changes`: of each run it keeps the newest observation that was not read."""

    def __init__(self) -> None:
        self.unread: dict[str, Observation] = {}
        self.news = asyncio.Event()

    def tell(self, observation: Observation) -> None:
        """Keep it until it is read or replaced."""
        self.unread.pop(observation.run_uid, None)
        self.unread[observation.run_uid] = observation
        self.news.set()

    async def iterate(self) -> AsyncIterator[Sequence[Observation]]:
        """Batches, until it is cancelled."""
        while True:
            await self.news.wait()
            self.news.clear()
            batch, self.unread = list(self.unread.values()), {}
            if batch:
                yield batch


def keep_newest(entries: Sequence[Any], *, most_bytes: int) -> list[Any]:
    """The last entries whose JSON is that small together."""
    kept: list[Any] = []
    size = 0
    for entry in reversed(entries):
        size += len(json.dumps(entry)) + 2
        if size > most_bytes:
            break
        kept.insert(0, entry)
    return kept
