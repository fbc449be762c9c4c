"""A real write to the database, for `/readyz`: a full disk or a locked file does not show in reads."""

import asyncio
import time

from runyard.app.core import Core
from runyard.app.ports import Unavailable

PROBE_SECONDS = 3.0
"""How long `/readyz` waits for the write."""
PROBED_EVERY_SECONDS = 5.0
"""How long a successful write counts. `/readyz` is public: more requests must not cause more writes."""
_ROW = "write_probe"


class WriteProbe:
    """Writes and commits one row, at most one write at a time. One per process."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._task: asyncio.Task[None] | None = None
        self._succeeded_at = float("-inf")

    async def check(self) -> None:
        """Raises `Unavailable` if the database does not take a write in time. A failure is tried again at once."""
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
        async with self._core.store.begin() as unit:
            await unit.put_meta(_ROW, self._core.clock.now().isoformat())
            await unit.commit()
        self._succeeded_at = time.monotonic()
