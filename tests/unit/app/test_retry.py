"""Acts that are done again where somebody else was quicker."""

import pytest

from runyard.app.errors import Conflict
from runyard.app.ports import Stale
from runyard.app.retry import ATTEMPTS, retry_on_conflict


async def test_act_is_done_again_when_somebody_was_quicker() -> None:
    tries = []

    async def act() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise Stale("changed meanwhile")
        return "done"

    assert await retry_on_conflict(act, on="run r1") == "done"
    assert len(tries) == 3


async def test_it_is_told_what_is_busy_when_nobody_gets_through() -> None:
    tries = []

    async def act() -> None:
        tries.append(1)
        raise Stale("changed meanwhile")

    with pytest.raises(Conflict, match="run r1 is being changed by many at once"):
        await retry_on_conflict(act, on="run r1")
    assert len(tries) == ATTEMPTS
