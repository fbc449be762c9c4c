"""How a run gets to the reconcile loop of the same process without a claim, which would be a transaction of its own.

Whoever writes that a run is due may hand it to the loop at once. The write then sets the due time ahead by `AHEAD`, so
that no other replica takes the run meanwhile. If the process dies, the run becomes due by itself.
"""

from collections.abc import Callable
from datetime import timedelta

from runyard.app.model import Run

AHEAD = timedelta(seconds=15)
"""How long the loop has before another replica may take the run."""


class Intake:
    """The way to the loop. While no loop runs here, every run is left to claims."""

    def __init__(self) -> None:
        self._place: str | None = None
        self._has_room: Callable[[], bool] = lambda: False
        self._take: Callable[[Run], None] | None = None

    def open(self, *, place: str, has_room: Callable[[], bool], take: Callable[[Run], None]) -> None:
        """A loop at that place takes runs."""
        self._place, self._has_room, self._take = place, has_room, take

    def close(self) -> None:
        """The loop has ended."""
        self._place, self._has_room, self._take = None, lambda: False, None

    def find_place(self) -> str | None:
        """The place of a loop that would take a new run now; None: leave it to claims."""
        return self._place if self._has_room() else None

    def take(self, run: Run) -> None:
        """Hand over a run that was stored with the place and a due time ahead. Its revision must be the stored one."""
        if self._take is not None:
            self._take(run)
