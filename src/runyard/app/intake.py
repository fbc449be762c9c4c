"""How a run gets to the reconcile loop of the same process without a claim, which would be a transaction of its own.

Whoever writes that a run is due may hand it to the loop at once. The write then sets the due time ahead by `AHEAD`, so
that no other replica takes the run meanwhile. If the process dies, the run becomes due by itself.

A new run is handed over while its row is being committed: the loop prepares its first step meanwhile, and acts once the
row is stored.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from runyard.app.model import RuleRevisions, Run
from runyard.app.ports import UnitOfWork

AHEAD = timedelta(seconds=15)
"""How long the loop has before another replica may take the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run that is being stored, and what its submit has read of its project and of the rules."""

    run: Run
    """With the place, a due time ahead, and the revision that was written."""
    project_created_at: datetime
    rule_revisions: RuleRevisions
    has_registries: bool
    """Whether the project has registry credentials."""


Take = Callable[[NewRun, asyncio.Future[bool]], None]
"""Takes a run, and whether it is stored, once that is known."""


class Intake:
    """The way to the loop. While no loop runs here, every run is left to claims."""

    def __init__(self) -> None:
        self._place: str | None = None
        self._has_room: Callable[[], bool] = lambda: False
        self._take: Take | None = None

    def open(self, *, place: str, has_room: Callable[[], bool], take: Take) -> None:
        """A loop at that place takes runs."""
        self._place, self._has_room, self._take = place, has_room, take

    def close(self) -> None:
        """The loop has ended."""
        self._place, self._has_room, self._take = None, lambda: False, None

    def find_place(self) -> str | None:
        """The place of a loop that would take a new run now; None: leave it to claims."""
        return self._place if self._has_room() else None

    async def commit(self, unit: UnitOfWork, new: NewRun) -> None:
        """Commit a run, and hand it over meanwhile. If the commit fails, the loop does nothing for it."""
        stored: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        is_stored = False
        try:
            await unit.commit(meanwhile=partial(self._hand_over, new, stored))
            is_stored = True
        finally:
            if not stored.cancelled():  # as it is when the loop has ended meanwhile
                stored.set_result(is_stored)

    def _hand_over(self, new: NewRun, stored: asyncio.Future[bool]) -> None:
        if self._take is not None:
            self._take(new, stored)
