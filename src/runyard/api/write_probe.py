"""A real write to the database, for `/readyz`: a full disk or a locked file does not show in reads.

A full disk does not always show in a small write either: it fits where SQLite overwrites its write-ahead log. So the
free space counts too.
"""

import asyncio
import time

from runyard.app.core import Core
from runyard.app.ports import Unavailable
from runyard.spec.figures import format_bytes

PROBE_SECONDS = 3.0
"""How long `/readyz` waits for the write."""
PROBED_EVERY_SECONDS = 5.0
"""How long a successful write counts. `/readyz` is public: more requests must not cause more writes."""
LEAST_FREE_BYTES = 1 << 25
"""What the disk of the database must have left: several of the largest requests, which are stored more than once."""
_ROW = "write_probe"


class WriteProbe:
    """Writes and commits one row, at most one write at a time. One per process."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._task: asyncio.Task[None] | None = None
        self._succeeded_at = float("-inf")

    async def check(self) -> None:
        """Raises `Unavailable` if the database does not take a write in time, or if its disk is nearly full.

        A failure is tried again at once.
        """
        if time.monotonic() - self._succeeded_at < PROBED_EVERY_SECONDS:
            return
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write(), name="write probe")
        # Not cancelled when the time is over: the store waits for a locked file on a thread.
        done, _ = await asyncio.wait([self._task], timeout=PROBE_SECONDS)
        if not done:
            raise Unavailable(f"the database did not take a write within {PROBE_SECONDS:g} seconds")
        self._task.result()

    async def _write(self) -> None:
        free = await self._core.store.find_free_bytes()
        if free is not None and free < LEAST_FREE_BYTES:
            allowed = f"at least {format_bytes(LEAST_FREE_BYTES)}"
            raise Unavailable(f"the disk of the database has {format_bytes(free)} left, allowed: {allowed}")
        async with self._core.store.begin() as unit:
            await unit.put_meta(_ROW, self._core.clock.now().isoformat())
            await unit.commit()
        self._succeeded_at = time.monotonic()
