"""How many triggers a project may have."""

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from runyard.app.entities import crud
from runyard.app.entities.inventory import COUNT_LIMITS, CountLimit
from runyard.app.errors import Duplicate, NotPossible
from runyard.app.list_query import Query
from runyard.app.projects.entity_deletion import delete_entity
from runyard.spec.problem_codes import Code
from tests.unit.app.run_world import ADA, World
from tests.unit.app.shop import TASK, furnish


async def create(world: World, trigger_id: str, **fields: Any) -> None:
    spec = {"task": TASK, "function": "container://p/f:f1", "schedule": "@yearly"}
    document = {"kind": "scheduler", "id": trigger_id, "name": "t", "spec": spec, **fields}
    await crud.create_entity(world.core, ADA, "trigger", "p", document)


def set_limit(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    limits = cast("dict[str, CountLimit]", COUNT_LIMITS)
    monkeypatch.setitem(limits, "trigger", replace(limits["trigger"], most=most))


async def test_trigger_is_refused_when_the_project_has_the_most(
    bare_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await furnish(bare_world)
    set_limit(monkeypatch, 2)
    await create(bare_world, "a")
    await create(bare_world, "b")  # of the same name: an older version fires too
    with pytest.raises(NotPossible, match="project p has 2 triggers; allowed: at most 2: delete some") as refused:
        await create(bare_world, "c")
    assert refused.value.code == Code.TRIGGER_TOO_MANY
    with pytest.raises(Duplicate):
        await create(bare_world, "b")
    await delete_entity(bare_world.core, ADA, "trigger", "p", "a")
    await create(bare_world, "c")


async def test_one_trigger_is_refused_when_two_are_created_at_once(
    bare_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await furnish(bare_world)
    set_limit(monkeypatch, 1)
    results = await asyncio.gather(create(bare_world, "a"), create(bare_world, "b"), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["NoneType", "NotPossible"]
    async with bare_world.store.begin(is_read_only=True) as unit:
        assert (await unit.entities.find_page(Query(type="trigger", versions="all"))).total == 1
