"""A project with a function and a task, and triggers for them."""

from collections import Counter
from typing import Any

from runyard.app.list_query import Query
from runyard.app.loops.trigger_loop import TriggerLoop
from runyard.app.model import Account, Entity, Run
from tests.unit.app.run_world import START, World

TASK = "container+job://p/t1"
HOURLY = {"schedule": "0 * * * *", "template": {"args": ["at {{input.at}}", "by {{trigger.name}}"]}}


def make_entity(type_name: str, entity_id: str, **fields: Any) -> Entity:
    chosen: dict[str, Any] = {
        "project": "p",
        "kind": type_name,
        "name": entity_id,
        "user": "ada",
        "created_at": START,
        "updated_at": START,
        "updated_by": "ada",
    }
    return Entity(type=type_name, id=entity_id, **{**chosen, **fields})


def make_trigger(trigger_id: str = "t", kind: str = "scheduler", **fields: Any) -> Entity:
    spec = {"task": TASK, "function": "container://p/f:f1", **HOURLY, **fields.pop("spec", {})}
    return make_entity("trigger", trigger_id, kind=kind, spec=spec, **fields)


async def furnish(world: World) -> None:
    """The project, and an account for Ada, who made it all."""
    async with world.store.begin() as unit:
        await unit.accounts.put(Account(name="ada", created_at=START))
        await unit.entities.add(make_entity("project", "p"))
        spec = {"image": "busybox"}
        await unit.entities.add(make_entity("function", "f1", kind="container", name="f", spec=spec))
        spec = {"function": "container://p/f:f1"}
        await unit.entities.add(make_entity("task", "t1", kind="container+job", spec=spec))
        await unit.commit()


def after(key: str, *states: str, **template: Any) -> dict[str, Any]:
    """The spec of a lifecycle trigger."""
    return {"key": key, "states": list(states), "template": template}


async def add(world: World, entity: Entity) -> Entity:
    async with world.store.begin() as unit:
        await unit.entities.add(entity)
        await unit.commit()
    return entity


async def list_runs(world: World) -> list[Run]:
    async with world.store.begin(is_read_only=True) as unit:
        found = (await unit.runs.find_page(Query(type="run", sort=(("created", "asc"),)))).content
    return [run for run in found if isinstance(run, Run)]


async def get_trigger(world: World, trigger_id: str = "t", *, project: str = "p") -> Entity:
    async with world.store.begin(is_read_only=True) as unit:
        found = await unit.entities.find("trigger", trigger_id, project=project)
    assert found is not None
    return found


async def furnish_project(world: World, project: str) -> dict[str, Any]:
    """Another project with a function and a task; returns the fields of a trigger's spec that name them."""
    task, function = f"container+job://{project}/t-{project}", f"container://{project}/f:f-{project}"
    await add(world, make_entity("project", project, project=project))
    spec = {"image": "busybox"}
    await add(world, make_entity("function", f"f-{project}", project=project, kind="container", name="f", spec=spec))
    spec = {"function": function}
    await add(world, make_entity("task", f"t-{project}", project=project, kind="container+job", spec=spec))
    return {"task": task, "function": function}


async def count_projects(world: World) -> Counter[str]:
    """How many runs each project has."""
    async with world.store.begin(is_read_only=True) as unit:
        return Counter(run.project for run in (await unit.runs.find_page(Query(type="run", size=100))).content)


async def fire_all(loop: TriggerLoop) -> int:
    """Passes until nothing is left to do; a slow machine needs more turns. Returns the number of occasions."""
    fired = await loop.fire_due()
    while loop.is_busy:
        fired += await loop.fire_due()
    return fired
