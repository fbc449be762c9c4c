import pytest

from runyard.app.ports import Stale
from runyard.app.runs.stop import stop_run
from runyard.app.runs.transitions import Change, write_change
from tests.unit.app.run_world import ADA, World


async def test_change_is_refused_when_the_run_was_written_since_it_was_read(world: World) -> None:
    await world.submit()
    await world.settle()
    read_before = await world.get()
    await stop_run(world.core, ADA, "p", "r1")
    with pytest.raises(Stale):
        async with world.store.begin() as unit:
            await write_change(
                world.core, unit, ADA, read_before, Change(action="run.report", values={"desired": "run"})
            )
    assert ((await world.get()).state, (await world.get()).desired) == ("STOP", "stop")
