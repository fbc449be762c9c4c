"""Retry on conflict (optimistic concurrency)."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from runyard.app.errors import Conflict
from runyard.app.ports import Stale

ATTEMPTS = 20
T = TypeVar("T")


async def retry_on_conflict(act: Callable[[], Awaitable[T]], *, on: str) -> T:
    """Run `act` until it does not raise `Stale`; it reads again each time.

    Raises `Conflict` when it loses too often.
    """
    for _ in range(ATTEMPTS):
        try:
            return await act()
        except Stale:
            continue
    raise Conflict(f"{on} is being changed by many at once: try again")
