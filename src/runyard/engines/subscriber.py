"""Subscribers to observations: of each run they keep the newest one that was not read yet."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from runyard.app.engine import Observation


class Subscriber:
    """One iterator of `Engine.changes`. Nothing is lost before it is read; of one run only the newest is kept."""

    def __init__(self, choose_newer: Callable[[Observation, Observation], Observation]) -> None:
        """`choose_newer` gets the one that is kept and another one of the same run."""
        self._choose_newer = choose_newer
        self._unread: dict[str, Observation] = {}
        self._news = asyncio.Event()

    def tell(self, observation: Observation) -> None:
        """Keep it until it is read or replaced."""
        known = self._unread.pop(observation.run_uid, None)
        self._unread[observation.run_uid] = observation if known is None else self._choose_newer(known, observation)
        self._news.set()

    async def iterate(self) -> AsyncIterator[Sequence[Observation]]:
        """Batches, until it is cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            batch, self._unread = list(self._unread.values()), {}
            if batch:
                yield batch
