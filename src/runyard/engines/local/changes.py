"""Subscribers to observations: of each run they keep the newest one that was not read yet."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from runyard.app.engine import Observation
from runyard.domain.outcomes import Seen


class Subscriber:
    """One iterator of `Engine.changes`. Nothing is lost before it is read; of one run the newest is kept only."""

    def __init__(self) -> None:
        self._unread: dict[str, Observation] = {}
        self._news = asyncio.Event()

    def tell(self, observation: Observation) -> None:
        """Keep it until it is read or replaced."""
        known = self._unread.pop(observation.run_uid, None)
        self._unread[observation.run_uid] = observation if known is None else choose_newer(known, observation)
        self._news.set()

    async def iterate(self) -> AsyncIterator[Sequence[Observation]]:
        """Batches, until it is cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            batch, self._unread = list(self._unread.values()), {}
            if batch:
                yield batch


def choose_newer(known: Observation, other: Observation) -> Observation:
    """The newer of two observations of one run; the other one if it cannot be told. A UID does not come back."""
    if known.uid != other.uid or other.seen is Seen.ABSENT:
        return other
    return known if known.seen is Seen.ABSENT or known.version > other.version else other
