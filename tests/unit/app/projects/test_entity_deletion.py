"""Projects and functions with runs: the runs go after their objects and logs, the project after its runs."""

import pytest

from runyard.app.loops.deletion_loop import DeletionLoop
from runyard.app.model import Run
from runyard.app.projects.entity_deletion import delete_entity, delete_named
from runyard.app.projects.project_deletion import delete_project
from runyard.app.runs.submission import submit_run
from tests.contract.store.builders import make_entity
from tests.unit.app.run_world import ADA, World
from tests.unit.app.shop import TASK, furnish


async def test_project_goes_with_its_last_run_when_an_engine_holds_it(world: World) -> None:
    run = await world.submit()
    async with world.store.begin() as unit:
        name = run.project
        entity = make_entity(name, type="project", project=name, kind="project", name=name)
        await unit.entities.add(entity)
        await unit.commit()
    await world.settle()
    assert world.engine.things

    await delete_project(world.core, ADA, name, is_cascading=True)
    loop = DeletionLoop(world.core, world.engine)
    assert await loop.finish() == 0
    assert world.engine.projects == {name}

    await world.settle()
    assert not world.engine.things
    assert await loop.finish() == 1
    assert world.engine.projects == set()
    async with world.store.begin(is_read_only=True) as unit:
        assert await unit.entities.find_project(name) is None


async def add_shop(world: World) -> Run:
    """A project with a function, its task, and a run of it."""
    await furnish(world)
    run, _ = await submit_run(world.core, ADA, "p", {"kind": "container+job:run", "id": "r1", "spec": {"task": TASK}})
    world.logs.is_busy = True
    return run


async def test_project_is_deleting_until_the_log_is_gone_when_log_storage_is_busy(bare_world: World) -> None:
    run = await add_shop(bare_world)
    loop = DeletionLoop(bare_world.core)

    for _ in range(2):
        await delete_project(bare_world.core, ADA, "p", is_cascading=True)
        assert await loop.finish() == 0
        assert (await bare_world.get()).state == "DELETING"
        async with bare_world.store.begin(is_read_only=True) as unit:
            project = await unit.entities.find_project("p")
        assert project is not None
        assert project.state == "DELETING"

    bare_world.logs.is_busy = False
    await bare_world.settle()
    assert await loop.finish() == 1
    assert await bare_world.find() is None
    assert bare_world.logs.deleted == [run.uid]


@pytest.mark.parametrize("is_by_name", [False, True])
async def test_runs_are_deleting_until_the_log_is_gone_when_a_function_is_deleted(
    bare_world: World, is_by_name: bool
) -> None:
    run = await add_shop(bare_world)
    if is_by_name:
        assert await delete_named(bare_world.core, ADA, "function", "p", "f", is_cascading=True) == 1
    else:
        await delete_entity(bare_world.core, ADA, "function", "p", "f1", is_cascading=True)
    async with bare_world.store.begin(is_read_only=True) as unit:
        assert await unit.entities.find("task", "t1", project="p") is None
    assert (await bare_world.get()).state == "DELETING"
    bare_world.logs.is_busy = False
    await bare_world.settle()
    assert await bare_world.find() is None
    assert bare_world.logs.deleted == [run.uid]
