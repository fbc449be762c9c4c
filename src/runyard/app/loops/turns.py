"""Fair turns: in one pass over all triggers, each project gets a turn of bounded length (round robin).

A project with much to do goes on in the next pass, which follows at once. So nobody waits for the backlog of others.
"""

import logging
import time
from collections.abc import Awaitable

from runyard.app.ports import Unavailable

TURN_FIRINGS = 20
"""How many runs the triggers of one project may submit in one turn."""
TURN_SECONDS = 0.25
"""How long one turn may take; the firing in progress is completed."""

_log = logging.getLogger(__name__)


class Turn:
    """One project's turn in a pass."""

    def __init__(self) -> None:
        self._left = TURN_FIRINGS
        self._end = time.monotonic() + TURN_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether the next project is due."""
        return self._left <= 0 or time.monotonic() >= self._end

    def count_firing(self) -> None:
        """A trigger fired."""
        self._left -= 1


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
