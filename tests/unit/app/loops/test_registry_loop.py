"""The engine is told of registry credentials that change or go, through failures and by whichever process is there."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from runyard.app.engine import EngineRefusal, EngineUnavailable, ImagePulling, ReadRegistries
from runyard.app.entities.secret_values import put_secret_values
from runyard.app.loops import registry_loop
from runyard.app.loops.registry_loop import RegistryLoop
from runyard.app.projects.entity_deletion import delete_entity, delete_named
from runyard.app.projects.project_deletion import delete_project
from runyard.app.projects.project_preparation import PreparedProjects
from tests.engines.memory import MemoryEngine
from tests.unit.app.run_world import ADA, World, open_world
from tests.unit.app.shop import furnish, make_entity

NAME = "DOCKER_AUTH_CONFIG"
DOWN = EngineUnavailable("engine.failed", "down")


class PullingEngine(MemoryEngine):
    """`app.engine.ImagePulling`."""

    def __init__(self, place: str = "a") -> None:
        super().__init__(place)
        self.logins: dict[str, dict[str, str]] = {}
        """Passwords by project and registry."""
        self.told: list[str] = []
        self.refusals: list[EngineRefusal] = []

    async def ensure_registries(self, project: str, read: ReadRegistries) -> None:
        if self.failures:
            raise self.failures.pop(0)
        if self.refusals:
            raise self.refusals.pop(0)
        self.told.append(project)
        self.logins[project] = {host: login.password for host, login in (await read()).items()}


@pytest.fixture
def engine() -> PullingEngine:
    return PullingEngine()


@pytest.fixture
async def world(engine: PullingEngine) -> AsyncIterator[World]:
    """A project with the secret of its registries, prepared by the engine."""
    async with open_world() as opened:
        await furnish(opened)
        await PreparedProjects(opened.core, engine).ensure("p")
        async with opened.store.begin() as unit:
            await unit.entities.add(make_entity("secret", "s1", name=NAME))
            await unit.entities.add(make_entity("secret", "s2", name="OTHER"))
            await unit.commit()
        yield opened


def make_loop(world: World, engine: PullingEngine) -> RegistryLoop:
    assert isinstance(engine, ImagePulling)
    return RegistryLoop(world.core, engine, engine)


async def put(world: World, password: str) -> None:
    text = json.dumps({"auths": {"r.example": {"username": "ada", "password": password}}})
    await put_secret_values(world.core, ADA, "p", {NAME: text})


async def find_status(world: World) -> dict[str, object]:
    async with world.store.begin(is_read_only=True) as unit:
        project = await unit.entities.find_project("p")
    assert project is not None
    return dict(project.status)


async def test_engine_gets_credentials_when_they_come_change_and_go(world: World, engine: PullingEngine) -> None:
    loop = make_loop(world, engine)
    await put(world, "first")
    assert world.core.signals.take_registries() == {"p"}
    assert await loop.tell("p")
    assert engine.logins == {"p": {"r.example": "first"}}
    await put(world, "second")
    assert await loop.tell("p")
    assert engine.logins == {"p": {"r.example": "second"}}
    assert await find_status(world) == {"places": ["memory/a"]}
    await delete_entity(world.core, ADA, "secret", "p", "s1")
    assert world.core.signals.registries.is_set()
    assert await loop.tell("p")
    assert engine.logins == {"p": {}}
    assert await loop.tell("p")
    assert engine.told == ["p"] * 3


async def test_engine_is_told_when_all_versions_of_the_secret_are_deleted(world: World, engine: PullingEngine) -> None:
    await put(world, "first")
    await delete_named(world.core, ADA, "secret", "p", NAME)
    assert await make_loop(world, engine).tell("p")
    assert engine.logins == {"p": {}}


async def test_engine_is_not_told_when_another_secret_changes(world: World, engine: PullingEngine) -> None:
    await put_secret_values(world.core, ADA, "p", {"OTHER": "x"})
    await delete_entity(world.core, ADA, "secret", "p", "s2")
    assert await make_loop(world, engine).tell("p")
    assert engine.told == []


async def test_change_waits_when_the_engine_is_down(world: World, engine: PullingEngine) -> None:
    await put(world, "first")
    engine.failures = [DOWN]
    loop = make_loop(world, engine)
    assert not await loop.tell("p")
    assert "changed_registries" in await find_status(world)
    assert await loop.tell("p")
    assert engine.logins == {"p": {"r.example": "first"}}


async def test_change_is_not_repeated_when_the_engine_refuses_it(world: World, engine: PullingEngine) -> None:
    await put(world, "first")
    engine.refusals = [EngineRefusal("registries.taken", "taken")]
    assert await make_loop(world, engine).tell("p")
    assert await find_status(world) == {"places": ["memory/a"]}


async def test_change_stays_when_another_follows_while_the_engine_writes(
    world: World, engine: PullingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(world, "first")
    real = engine.ensure_registries

    async def write_slowly(project: str, read: ReadRegistries) -> None:
        await real(project, read)
        await put(world, "second")

    monkeypatch.setattr(engine, "ensure_registries", write_slowly)
    loop = make_loop(world, engine)
    assert not await loop.tell("p")
    monkeypatch.setattr(engine, "ensure_registries", real)
    assert await loop.tell("p")
    assert engine.logins == {"p": {"r.example": "second"}}


async def test_change_waits_for_its_place_when_the_server_acts_at_another(world: World, engine: PullingEngine) -> None:
    await put(world, "first")
    other = PullingEngine("b")
    assert await make_loop(world, other).tell("p")
    assert other.told == []
    assert await make_loop(world, engine).tell("p")
    assert engine.told == ["p"]


async def test_no_credentials_are_written_when_the_project_is_being_deleted(
    world: World, engine: PullingEngine
) -> None:
    await put(world, "first")
    await delete_project(world.core, ADA, "p", is_cascading=True)
    assert await make_loop(world, engine).tell("p")
    assert engine.logins == {"p": {}}


async def test_loop_tells_what_another_process_left_and_what_follows_when_it_starts(
    world: World, engine: PullingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_loop, "FIRST_RETRY_SECONDS", 0.01)
    await put(world, "first")
    world.core.signals.take_registries()  # the process that knew of it is gone
    engine.failures = [DOWN, DOWN]
    task = asyncio.create_task(make_loop(world, engine).run())
    try:
        async with asyncio.timeout(60):
            while engine.logins != {"p": {"r.example": "first"}}:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await put(world, "second")
            while engine.logins != {"p": {"r.example": "second"}}:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
