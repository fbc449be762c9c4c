"""What is read, decided and written again where somebody else was quicker."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from runyard.app.errors import Conflict
from runyard.app.ports import Stale

ATTEMPTS = 20
T = TypeVar("T")


async def retry_on_conflict(act: Callable[[], Awaitable[T]], *, on: str) -> T:
    """What comes of the act; it is done again, from its first read on, as long as it raises `Stale`.

    Raises `Conflict` where many write so often that nobody gets through.
    """
    for _ in range(ATTEMPTS):
        try:
            return await act()
        except Stale:
            continue
    raise Conflict(f"{on} is being changed by many at once: try again")
