"""Processes that share a folder of listeners tell each other what they changed."""

import asyncio
from pathlib import Path

from runyard.procs import Listener, tell_listeners


async def test_others_hear_of_it_and_the_teller_does_not_when_one_changed_a_folder(tmp_path: Path) -> None:
    teller, other = Listener(tmp_path), Listener(tmp_path)
    try:
        tell_listeners(tmp_path, Path("/place/runs/one"), but=teller.name)
        async with asyncio.timeout(60):
            assert await anext(other) == Path("/place/runs/one")
        tell_listeners(tmp_path, Path("/place/runs/two"))
        async with asyncio.timeout(60):
            # Datagrams arrive in order: the first one would have come before.
            assert await anext(teller) == Path("/place/runs/two")
    finally:
        teller.close()
        other.close()
