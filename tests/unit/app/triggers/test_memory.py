"""What the trigger loop keeps in memory between two passes: nothing that grows with what clients write."""

from datetime import timedelta

from runyard.app.entities.crud import update_entity
from runyard.app.loops.lifecycle_triggers import _Scan
from runyard.app.loops.trigger_loop import TriggerLoop
from tests.unit.app.run_world import ADA, START, World
from tests.unit.app.shop import add, after, fire_all, get_trigger, make_entity, make_trigger

HOUR = timedelta(hours=1)


async def test_loop_keeps_only_what_it_reads_when_a_client_fills_the_status(shop: World) -> None:
    stored = await add(shop, make_trigger(metadata={"runs_as": "ada", "description": "long"}))
    loop = TriggerLoop(shop.core)
    await fire_all(loop)
    status = {"message": {"any": ["thing"] * 100}, "metrics": {"x": [1.0] * 100}}
    document = {"kind": "scheduler", "spec": stored.spec, "status": status}
    await update_entity(shop.core, ADA, "trigger", "p", "t", document)
    shop.clock.at += HOUR
    assert await fire_all(loop) == 1

    full = (await get_trigger(shop)).status
    assert {"message", "metrics", "last", "schedule"} <= full.keys()
    [kept] = loop._triggers.values()
    assert (kept.status, kept.metadata) == ({"schedule": full["schedule"]}, {"runs_as": "ada"})


async def test_missed_occasion_names_who_changed_the_spec_when_it_is_recorded(shop: World) -> None:
    await add(shop, make_trigger(metadata={"runs_as": "bob"}))
    loop = TriggerLoop(shop.core)
    await fire_all(loop)
    shop.clock.at += timedelta(hours=1, minutes=30)
    await fire_all(loop)
    [told] = [entry for entry in await shop.audit() if entry.action == "trigger.missed"]
    assert told.details["runs_as"] == "bob"


async def test_unfinished_scan_keeps_no_documents_when_entities_have_large_ones(
    shop: World,
) -> None:
    await add(shop, make_trigger("after", "lifecycle", spec=after("store://p/model/*", "READY")))
    for number in range(3):
        await add(shop, make_entity("model", f"m{number}", state="READY", metadata={"description": "d" * 1000}))
    scan = _Scan("p", [await get_trigger(shop, "after")], since=START, began_at=START)
    async with shop.store.begin(is_read_only=True) as unit:
        entities, changes = await scan._list_changes(unit, "model")
    assert len(entities) == len(changes) == 3
    assert all(change.entity.metadata == {} for change in changes)
