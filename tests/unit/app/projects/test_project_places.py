"""A project goes from every place where it was prepared before its rows go."""

import asyncio
from contextlib import suppress
from datetime import timedelta

import pytest

from runyard.app.engine import Assignment, EngineUnavailable
from runyard.app.entities import list_changed_registries, mark_registries_changed, project_places
from runyard.app.loops import deletion_loop
from runyard.app.loops.deletion_loop import DeletionLoop
from runyard.app.loops.volume_loop import VolumeLoop
from runyard.app.model import Entity
from runyard.app.projects import project_preparation
from runyard.app.projects.project_deletion import delete_project
from runyard.app.projects.project_preparation import (
    PREPARED_SECONDS,
    PreparedProjects,
    find_projects_by_place,
    forget_project_places,
)
from runyard.app.projects.projects import create_project
from runyard.app.rules import put_policy, put_profile
from runyard.app.volumes.kept_volumes import create_volume
from runyard.domain.reasons import Reason
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.policy import Policy
from tests.engines.memory import MemoryEngine
from tests.parsed_documents import record_parsed
from tests.unit.app.run_world import ADA, World
from tests.unit.app.shop import furnish


async def find_project(world: World) -> Entity | None:
    async with world.store.begin(is_read_only=True) as unit:
        return await unit.entities.find_project("p")


async def get_status(world: World) -> tuple[str, str]:
    """State and reason of the project."""
    project = await find_project(world)
    assert project is not None
    return project.state, project.status.get("reason", "")


async def prepare(world: World, *engines: MemoryEngine) -> None:
    await furnish(world)
    for engine in engines or (world.engine,):
        for _ in range(2):
            await PreparedProjects(world.core, engine).ensure("p")


async def test_place_is_known_when_a_project_is_prepared(world: World) -> None:
    await prepare(world)
    project = await find_project(world)
    assert project is not None
    assert project.status == {"places": ["memory/a"]}
    assert project.revision == 2
    assert world.engine.projects == {"p"}


async def test_place_is_written_first_when_the_engine_is_down(world: World) -> None:
    await furnish(world)
    world.engine.failures = [EngineUnavailable("engine.failed", "down")]
    with pytest.raises(EngineUnavailable):
        await PreparedProjects(world.core, world.engine).ensure("p")
    project = await find_project(world)
    assert project is not None
    assert project.status == {"places": ["memory/a"]}


@pytest.mark.parametrize("reason", [Reason.NAMESPACE_MISSING, Reason.KUBE_PERMISSIONS])
async def test_project_is_prepared_again_when_a_call_shows_that_its_namespace_is_gone(
    world: World, reason: Reason
) -> None:
    await prepare(world)
    prepared = PreparedProjects(world.core, world.engine)
    await prepared.ensure("p")
    world.engine.projects.clear()
    prepared.note_failure("p", EngineUnavailable(Reason.ENGINE_FAILED, "down"))
    await prepared.ensure("p")
    assert world.engine.projects == set()
    prepared.note_failure("p", EngineUnavailable(reason, "gone"))
    await prepared.ensure("p")
    assert world.engine.projects == {"p"}


async def test_project_is_prepared_again_when_it_was_prepared_long_ago(world: World) -> None:
    await prepare(world)
    prepared = PreparedProjects(world.core, world.engine)
    await prepared.ensure("p")
    world.engine.projects.clear()
    world.clock.at += timedelta(seconds=PREPARED_SECONDS - 1)
    await prepared.ensure("p")
    assert world.engine.projects == set()
    world.clock.at += timedelta(seconds=1)
    await prepared.ensure("p")
    assert world.engine.projects == {"p"}


async def test_run_begins_when_the_namespace_of_its_project_was_deleted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await furnish(world)
    loop = world.make_loop()
    await world.submit("r1")
    await world.look(loop)
    real = world.engine.ensure_anchor

    async def ensure_anchor(assignment: Assignment) -> str:
        if "p" not in world.engine.projects:
            raise EngineUnavailable(Reason.NAMESPACE_MISSING, "no namespace")
        return await real(assignment)

    monkeypatch.setattr(world.engine, "ensure_anchor", ensure_anchor)
    world.engine.projects.clear()
    await world.submit("r2")
    await world.look(loop)
    assert (await world.get("r2")).reason == Reason.NAMESPACE_MISSING
    world.make_due()
    await world.look(loop)
    assert (await world.get("r2")).state == "PENDING"
    await loop.close()


async def test_rows_go_after_the_engine_removed_the_project_when_it_is_deleted(world: World) -> None:
    await prepare(world)
    await delete_project(world.core, ADA, "p", is_cascading=True)
    assert await get_status(world) == ("DELETING", "")
    assert await DeletionLoop(world.core, world.engine).finish() == 1
    assert await find_project(world) is None
    assert world.engine.projects == set()


async def test_project_waits_when_the_engine_is_still_removing_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await prepare(world)
    await delete_project(world.core, ADA, "p", is_cascading=True)
    loop = DeletionLoop(world.core, world.engine)
    real = world.engine.remove_project

    async def begin_only(_project: str) -> bool:
        return False

    monkeypatch.setattr(world.engine, "remove_project", begin_only)
    for _ in range(2):
        assert await loop.finish() == 0
        assert await get_status(world) == ("DELETING", Reason.PROJECT_REMOVING)
    monkeypatch.setattr(world.engine, "remove_project", real)
    assert await loop.finish() == 1


async def test_project_waits_with_a_reason_when_the_engine_is_down(world: World) -> None:
    await prepare(world)
    await delete_project(world.core, ADA, "p", is_cascading=True)
    world.engine.failures = [EngineUnavailable("engine.failed", "down")]
    loop = DeletionLoop(world.core, world.engine)
    assert await loop.finish() == 0
    assert await get_status(world) == ("DELETING", "engine.failed")
    assert await loop.finish() == 1


async def test_project_waits_for_both_places_when_it_was_prepared_at_two(world: World) -> None:
    other = MemoryEngine("b")
    await prepare(world, world.engine, other)
    await delete_project(world.core, ADA, "p", is_cascading=True)
    for _ in range(2):
        assert await DeletionLoop(world.core, world.engine).finish() == 0
        assert await get_status(world) == ("DELETING", Reason.PLACE_OTHER)
    assert (world.engine.projects, other.projects) == (set(), {"p"})
    assert await DeletionLoop(world.core, None).finish() == 0
    assert await get_status(world) == ("DELETING", Reason.ENGINE_NONE)
    assert await DeletionLoop(world.core, other).finish() == 1
    assert other.projects == set()


async def test_volumes_go_before_the_project_when_it_is_deleted(world: World) -> None:
    await prepare(world)
    await create_volume(world.core, ADA, "p", {"name": "data"})
    await VolumeLoop(world.core, world.engine).reconcile()
    await create_volume(world.core, ADA, "p", {"name": "nowhere"})
    await delete_project(world.core, ADA, "p", is_cascading=True)
    loop = DeletionLoop(world.core, world.engine)
    assert await loop.finish() == 0
    assert await get_status(world) == ("DELETING", Reason.PROJECT_REMOVING)
    assert world.engine.projects == {"p"}
    await VolumeLoop(world.core, world.engine).reconcile()
    assert world.engine.volumes == {}
    assert await loop.finish() == 1


async def test_project_goes_at_once_when_the_last_thing_is_gone(world: World) -> None:
    """Without a poll: the loops wake each other."""
    await prepare(world)
    await create_volume(world.core, ADA, "p", {"name": "data"})
    await VolumeLoop(world.core, world.engine).reconcile()
    loops = [
        asyncio.create_task(DeletionLoop(world.core, world.engine).run()),
        asyncio.create_task(VolumeLoop(world.core, world.engine).run()),
    ]
    try:
        await asyncio.sleep(0.3)
        await delete_project(world.core, ADA, "p", is_cascading=True)
        async with asyncio.timeout(20):
            while await find_project(world) is not None:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.02)
    finally:
        for loop in loops:
            loop.cancel()
            with suppress(asyncio.CancelledError):
                await loop
    assert world.engine.projects == set()
    await create_project(world.core, ADA, {"kind": "project", "name": "p1"})


async def test_others_go_when_the_deletion_of_one_project_fails(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("p1", "p2"):
        await create_project(world.core, ADA, {"kind": "project", "name": name})
        await PreparedProjects(world.core, world.engine).ensure(name)
        await delete_project(world.core, ADA, name)
    real = world.engine.remove_project

    async def fail_one(project: str) -> bool:
        if project == "p1":
            raise RuntimeError("broken")
        return await real(project)

    monkeypatch.setattr(world.engine, "remove_project", fail_one)
    assert await DeletionLoop(world.core, world.engine).finish() == 1
    assert world.engine.projects == {"p1"}


async def test_project_goes_when_the_other_place_is_forgotten(world: World) -> None:
    other = MemoryEngine("b")
    await prepare(world, world.engine, other)
    await delete_project(world.core, ADA, "p", is_cascading=True)
    assert await DeletionLoop(world.core, world.engine).finish() == 0
    assert await forget_project_places(world.core, "memory/b") == 1
    assert await forget_project_places(world.core, "memory/b") == 0
    assert await DeletionLoop(world.core, world.engine).finish() == 1


async def test_documents_of_projects_are_not_read_when_all_of_them_are_looked_through(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of two hundred projects of 4 MiB would take gigabytes, at every start and at intervals."""
    for name in ("p1", "p2", "p3"):
        spec = {"config": {"note": "hoard"}}
        await create_project(world.core, ADA, {"kind": "project", "name": name, "spec": spec})
        await PreparedProjects(world.core, world.engine).ensure(name)
    async with world.store.begin() as unit:
        await mark_registries_changed(unit, "p1")
        await mark_registries_changed(unit, "p3")
        await unit.commit()
    await delete_project(world.core, ADA, "p2")
    for module in (project_places, project_preparation):
        monkeypatch.setattr(module, "PAGE_SIZE", 2)
    finished = list[str]()

    async def note_project(_core: object, _engine: object, project: str) -> bool:
        finished.append(project)
        return False

    monkeypatch.setattr(deletion_loop, "finish_project_deletion", note_project)
    parsed = record_parsed(monkeypatch)
    assert await list_changed_registries(world.core, "memory/a") == ["p1", "p3"]
    assert await list_changed_registries(world.core, "memory/b") == []
    [(place, names)] = (await find_projects_by_place(world.core)).items()
    assert (place, sorted(names)) == ("memory/a", ["p1", "p2", "p3"])
    assert await DeletionLoop(world.core, world.engine).finish() == 0
    assert finished == ["p2"]
    assert not [document for document in parsed if "hoard" in document]


async def test_engine_is_asked_once_per_project_when_it_was_created_again(world: World) -> None:
    prepared = PreparedProjects(world.core, world.engine)
    for _ in range(2):
        await create_project(world.core, ADA, {"kind": "project", "name": "again"})
        for _ in range(3):
            await prepared.ensure("again")
        assert world.engine.projects == {"again"}
        await delete_project(world.core, ADA, "again")
        assert await DeletionLoop(world.core, world.engine).finish() == 1
        assert world.engine.projects == set()
        world.turn(timedelta(seconds=1))
    assert world.engine.calls.count("ensure_project") == 2


async def test_engine_is_told_the_rules_again_when_policy_or_profiles_have_changed(world: World) -> None:
    prepared = PreparedProjects(world.core, world.engine)
    await create_project(world.core, ADA, {"kind": "project", "name": "ruled"})
    await prepared.ensure("ruled")
    assert world.engine.rules["ruled"].policy == Policy()
    await put_policy(world.core, ADA, {"resources.cpu": {"max": "2"}})
    for _ in range(2):
        await prepared.ensure("ruled")
    assert world.engine.rules["ruled"].policy.scope.rules["resources.cpu"].max == Quantity.parse("2")
    await put_profile(world.core, ADA, "small", {"resources": {"cpu": "1"}})
    await prepared.ensure("ruled")
    assert set(world.engine.rules["ruled"].profiles) == {"small"}
    assert world.engine.calls.count("ensure_project") == 3
