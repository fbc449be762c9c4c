"""Fair turns: in one pass over all triggers, each user gets a turn of bounded length; their projects share it.

A user with much to do goes on in the next pass, which follows at once. So a user waits at most for one turn of each
other user, however many projects those have.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable

from runyard.app.ports import Unavailable

TURN_FIRINGS = 20
"""How many runs the triggers of one user may submit in one turn."""
TURN_SECONDS = 0.25
"""How long one turn may take; the firing in progress is completed."""
STEPS_BETWEEN_PAUSES = 200
"""How many triggers are looked at before the other tasks of the event loop get a chance."""

_log = logging.getLogger(__name__)


class Turn:
    """One user's turn in a pass."""

    def __init__(self) -> None:
        self._left = TURN_FIRINGS
        self._end = time.monotonic() + TURN_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether the next user is due."""
        return self._left <= 0 or time.monotonic() >= self._end

    def count_firing(self) -> None:
        """A trigger fired."""
        self._left -= 1


class Pauses:
    """Pauses in a pass over very many triggers, of which most have nothing to do."""

    def __init__(self) -> None:
        self._steps = 0

    async def step(self) -> None:
        """One more trigger was looked at."""
        self._steps += 1
        if self._steps % STEPS_BETWEEN_PAUSES == 0:
            await asyncio.sleep(0)


async def contain(work: Awaitable[int], **extra: str) -> int | None:
    """The result of the work for one trigger or project; None if it fails, so that the pass goes on.

    `extra` is logged with the failure. Raises `Unavailable`: without the store no trigger can fire.
    """
    try:
        return await work
    except Unavailable:
        raise
    except Exception:  # noqa: BLE001 - a trigger that fails for whatever reason must not stop the others
        _log.exception("a trigger failed", extra=extra)
        return None
