"""Projects with runs that an engine holds: they go when the last of what their runs made is gone."""

from runyard.app.loops.project_deletion import DeletionLoop
from runyard.app.projects.projects import delete_project
from tests.contract.store.builders import make_entity
from tests.unit.app.run_world import ADA, World


async def test_project_goes_with_its_last_run_when_an_engine_holds_it(world: World) -> None:
    run = await world.submit()
    async with world.store.begin() as unit:
        name = run.project
        entity = make_entity(name, type="project", project=name, kind="project", name=name)
        await unit.entities.add(entity)
        await unit.commit()
    await world.settle()
    assert world.engine.anchors

    await delete_project(world.core, ADA, name, is_cascading=True)
    loop = DeletionLoop(world.core)
    assert await loop.finish() == 0

    await world.settle()
    assert not world.engine.anchors
    assert await loop.finish() == 1
    async with world.store.begin(is_read_only=True) as unit:
        assert await unit.entities.find("project", name) is None
