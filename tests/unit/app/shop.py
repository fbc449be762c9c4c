"""A project with a function and a task, and triggers for them."""

from typing import Any

from runyard.app.loops.trigger_loop import TriggerLoop
from runyard.app.model import Account, Entity
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


async def fire_all(loop: TriggerLoop) -> int:
    """Passes until nothing is left to do; a slow machine needs more turns. Returns the number of occasions."""
    fired = await loop.fire_due()
    while loop.is_busy:
        fired += await loop.fire_due()
    return fired
