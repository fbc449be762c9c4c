"""Large deletions are made in batches; a crash between any two of them loses nothing."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import pytest

from runyard.app.core import Core
from runyard.app.errors import Forbidden
from runyard.app.list_query import Query
from runyard.app.log_store import LogStore
from runyard.app.loops.deletion_loop import DeletionLoop
from runyard.app.model import Entity, Principal
from runyard.app.ports import Store, UnitOfWork
from runyard.app.projects import entity_deletion, project_deletion
from runyard.app.projects.entity_deletion import delete_entity, delete_named
from runyard.app.projects.project_deletion import delete_project
from runyard.app.run_rows import RUNS_AT_ONCE
from tests.unit.app.crash_points import Crash, Fate, MortalLogs, MortalStore
from tests.unit.app.run_world import ADA, World
from tests.unit.app.shop import furnish, make_entity

Count = Callable[[World], Awaitable[int]]


async def count_versions(world: World) -> int:
    async with world.store.begin(is_read_only=True) as unit:
        return (await unit.entities.find_page(Query(type="artifact", project="p", versions="all", size=1))).total


async def count_runs(world: World) -> int:
    async with world.store.begin(is_read_only=True) as unit:
        return (await unit.runs.find_page(Query(type="run", project="p", size=1))).total


async def count_unmarked_runs(world: World) -> int:
    async with world.store.begin(is_read_only=True) as unit:
        return len(await unit.runs.list_ids(project="p", is_without_deleting=True))


class RecordingStore:
    """Counts after every commit what is left."""

    def __init__(self, world: World, count: Count) -> None:
        self._world = world
        self._count = count
        self.left: list[int] = []

    @asynccontextmanager
    async def begin(self, *, is_read_only: bool = False, is_urgent: bool = False) -> AsyncIterator[UnitOfWork]:
        async with self._world.store.begin(is_read_only=is_read_only, is_urgent=is_urgent) as unit:
            yield unit
        if not is_read_only:
            self.left.append(await self._count(self._world))

    @property
    def largest_step(self) -> int:
        return max(before - after for before, after in zip(self.left, self.left[1:], strict=False))


def with_store(world: World, store: Any) -> Core:
    return replace(world.core, store=cast("Store", store))


async def add_versions(world: World, number: int) -> None:
    async with world.store.begin() as unit:
        for index in range(number):
            await unit.entities.add(make_entity("artifact", f"a{index}", name="a", kind="artifact"))
        await unit.commit()


async def test_no_transaction_deletes_more_than_a_batch_when_a_name_has_many_versions(bare_world: World) -> None:
    await furnish(bare_world)
    await add_versions(bare_world, 3 * entity_deletion.ENTITIES_AT_ONCE + 1)
    store = RecordingStore(bare_world, count_versions)
    deleted = await delete_named(with_store(bare_world, store), ADA, "artifact", "p", "a")
    assert deleted == 3 * entity_deletion.ENTITIES_AT_ONCE + 1
    assert store.left[-1] == 0
    assert store.largest_step <= entity_deletion.ENTITIES_AT_ONCE


@pytest.mark.parametrize("count", [count_runs, count_unmarked_runs])
@pytest.mark.parametrize("is_of_project", [False, True])
async def test_no_transaction_deletes_more_than_a_batch_when_there_are_many_runs(
    bare_world: World, count: Count, is_of_project: bool
) -> None:
    await furnish(bare_world)
    for number in range(2 * RUNS_AT_ONCE + 1):
        await bare_world.submit(f"r{number}")
    store = RecordingStore(bare_world, count)
    core = with_store(bare_world, store)
    if is_of_project:
        await delete_project(core, ADA, "p", is_cascading=True)
    else:
        await delete_entity(core, ADA, "function", "p", "f1", is_cascading=True)
    assert await count_runs(bare_world) == 0
    assert store.largest_step <= RUNS_AT_ONCE


async def test_no_transaction_deletes_more_than_a_batch_when_a_project_has_much_in_it(
    bare_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project_deletion, "ROWS_AT_ONCE", 4)
    await furnish(bare_world)
    await add_versions(bare_world, 15)
    store = RecordingStore(bare_world, count_versions)
    await delete_project(with_store(bare_world, store), ADA, "p", is_cascading=True)
    assert store.left[-1] == 0
    assert store.largest_step <= 4


async def test_nothing_goes_when_a_runs_token_may_delete_only_some_versions(bare_world: World) -> None:
    await furnish(bare_world)
    await add_versions(bare_world, entity_deletion.ENTITIES_AT_ONCE + 1)
    own = {"produced_by_run": "r1", "produced_by_run_uid": "u1"}
    async with bare_world.store.begin() as unit:
        for number in range(entity_deletion.ENTITIES_AT_ONCE):
            stored = await unit.entities.find("artifact", f"a{number}", project="p")
            assert stored is not None
            await unit.entities.replace(replace(stored, metadata=own))
        await unit.commit()
    token = Principal(name="ada", run_id="r1", run_uid="u1", project="p", via="run")
    with pytest.raises(Forbidden):
        await delete_named(bare_world.core, token, "artifact", "p", "a")
    assert await count_versions(bare_world) == entity_deletion.ENTITIES_AT_ONCE + 1


async def test_no_metadata_is_kept_when_all_versions_are_deleted(
    bare_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await furnish(bare_world)
    await add_versions(bare_world, 5)
    async with bare_world.store.begin() as unit:
        stored = await unit.entities.find("artifact", "a1", project="p")
        assert stored is not None
        await unit.entities.replace(replace(stored, metadata={"description": "long"}))
        await unit.commit()
    delete, kept = entity_deletion._delete_batch, list[Entity]()

    async def record(core: Core, who: Principal, entities: Sequence[Entity], *, is_cascading: bool) -> int:
        kept.extend(entities)
        return await delete(core, who, entities, is_cascading=is_cascading)

    monkeypatch.setattr(entity_deletion, "_delete_batch", record)
    monkeypatch.setattr(entity_deletion, "PAGE_SIZE", 2)
    assert await delete_named(bare_world.core, ADA, "artifact", "p", "a") == 5
    assert [entity.metadata for entity in kept] == [{}] * 5


async def test_version_stays_when_it_is_added_during_the_deletion(bare_world: World) -> None:
    await furnish(bare_world)
    await add_versions(bare_world, entity_deletion.ENTITIES_AT_ONCE + 1)

    async def add_one(world: World) -> int:
        async with world.store.begin() as unit:
            if await unit.entities.find("artifact", "late", project="p") is None:
                await unit.entities.add(make_entity("artifact", "late", name="a", kind="artifact"))
            await unit.commit()
        return 0

    store = RecordingStore(bare_world, add_one)
    await delete_named(with_store(bare_world, store), ADA, "artifact", "p", "a")
    assert await count_versions(bare_world) == 1


async def test_tasks_of_any_version_go_with_the_last_when_all_versions_are_deleted(bare_world: World) -> None:
    await furnish(bare_world)
    async with bare_world.store.begin() as unit:
        await unit.entities.add(make_entity("function", "f2", kind="container", name="f"))
        spec = {"function": "container://p/f"}
        await unit.entities.add(make_entity("task", "t2", kind="container+job", spec=spec))
        await unit.commit()
    await bare_world.submit("r1", task="container+job://p/t2")
    await delete_entity(bare_world.core, ADA, "function", "p", "f1", is_cascading=True)
    assert (await bare_world.get("r1")).state == "READY"
    await delete_named(bare_world.core, ADA, "function", "p", "f", is_cascading=True)
    assert await bare_world.find("r1") is None
    async with bare_world.store.begin(is_read_only=True) as unit:
        assert (await unit.entities.find_page(Query(type="task", project="p"))).total == 0


async def crash_project_deletion(world: World, dies_after: int) -> bool:
    """Delete the project in a process that dies; returns whether it died."""
    fate = Fate(dies_after)
    core = with_store(world, MortalStore(world.store, fate))
    core = replace(core, logs=cast("LogStore", MortalLogs(world.logs, fate)))
    try:
        await delete_project(core, ADA, "p", is_cascading=True)
    except Crash:
        return True
    return False


async def test_project_goes_when_the_server_crashes_after_any_step_of_its_deletion(
    bare_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project_deletion, "ROWS_AT_ONCE", 2)
    has_died, dies_after = True, 1
    while has_died:
        await furnish(bare_world)
        for number in range(2):
            await bare_world.submit(f"r{number}")
        has_died = await crash_project_deletion(bare_world, dies_after)
        await bare_world.settle()
        async with bare_world.store.begin(is_read_only=True) as unit:
            project = await unit.entities.find_project("p")
        assert project is None or project.state == "DELETING"
        assert await DeletionLoop(bare_world.core).finish() == (project is not None)
        async with bare_world.store.begin(is_read_only=True) as unit:
            for type_name in ("project", "function", "task"):
                assert (await unit.entities.find_page(Query(type=type_name))).total == 0
        assert await count_runs(bare_world) == 0
        dies_after += 1
    assert dies_after > 8
