"""Turns of a pass: nobody waits for the backlog or the failures of others, and the event loop is never held."""

import asyncio
from collections import Counter
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from runyard.app.core import Core
from runyard.app.entities.crud import update_entity
from runyard.app.loops import lifecycle_triggers, scheduled_triggers, turns
from runyard.app.loops.trigger_loop import TriggerLoop
from runyard.app.model import Entity, Principal
from runyard.app.runs.submission import submit_run
from runyard.app.triggers import firings
from runyard.app.triggers.firings import Occasion, stop_trigger, use_occasion
from runyard.store.entities import SqlEntities
from tests.unit.app.run_world import ADA, World
from tests.unit.app.shop import (
    add,
    after,
    count_projects,
    fire_all,
    furnish_project,
    get_trigger,
    list_runs,
    make_entity,
    make_trigger,
)

HOUR = timedelta(hours=1)


@pytest.mark.parametrize("kind", ["scheduler", "lifecycle"])
async def test_other_triggers_fire_when_one_fails_in_an_unforeseen_way(
    shop: World, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    async def fail_for_one(core: Any, who: Any, project: str, document: Any, **named: Any) -> Any:
        if "bad" in document["spec"].get("args", ()):
            raise MemoryError
        return await submit_run(core, who, project, document, **named)

    monkeypatch.setattr(firings, "submit_run", fail_for_one)
    fields: dict[str, Any] = {} if kind == "scheduler" else {"key": "store://p/model/*", "states": ["READY"]}
    await add(shop, make_trigger("a", kind, spec={**fields, "template": {"args": ["bad"]}}))
    await add(shop, make_trigger("b", kind, spec={**fields, "template": {"args": ["good"]}}))
    fields = {} if kind == "scheduler" else {**fields, "key": "store://q/model/*"}
    named = await furnish_project(shop, "q")
    await add(shop, make_trigger("c", kind, project="q", spec={**fields, **named, "template": {}}))
    loop = TriggerLoop(shop.core, is_open=lambda: True)
    await fire_all(loop)
    shop.clock.at += HOUR
    for project in ("p", "q"):
        at = shop.clock.at
        await add(
            shop, make_entity("model", f"m-{project}", project=project, state="READY", updated_at=at, created_at=at)
        )
    assert await fire_all(loop) == 3
    assert await count_projects(shop) == {"p": 1, "q": 1}
    assert (await get_trigger(shop, "a")).status["last"]["problem"].startswith("internal error")
    assert await fire_all(loop) == 0


async def test_other_projects_go_on_when_the_note_of_a_firing_cannot_be_written(
    shop: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail_for_one(core: Any, trigger: Entity, *given: Any, **named: Any) -> bool:
        if trigger.id == "t":
            raise RuntimeError("broken")
        return await use_occasion(core, trigger, *given, **named)

    monkeypatch.setattr(firings, "use_occasion", fail_for_one)
    await add(shop, make_trigger())
    await add(shop, make_trigger("u", project="q", spec=await furnish_project(shop, "q")))
    loop = TriggerLoop(shop.core, is_open=lambda: True)
    await fire_all(loop)
    shop.clock.at += HOUR
    assert await fire_all(loop) == 1
    assert await count_projects(shop) == {"p": 1, "q": 1}
    assert "last" in (await get_trigger(shop, "u", project="q")).status


@pytest.mark.parametrize("kind", ["scheduler", "lifecycle"])
async def test_user_does_not_wait_when_another_has_a_backlog(
    shop: World, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(turns, "TURN_FIRINGS", 2)
    monkeypatch.setattr(turns, "TURN_SECONDS", 60)
    fields: dict[str, Any] = {} if kind == "scheduler" else {"key": "store://p/model/*", "states": ["READY"]}
    for number in range(6):
        await add(shop, make_trigger(f"a{number}", kind, spec={**fields, "template": {}}))
    fields = {} if kind == "scheduler" else {**fields, "key": "store://q/model/*"}
    named = await furnish_project(shop, "q")
    await add(shop, make_trigger("z", kind, project="q", user="bob", spec={**fields, **named, "template": {}}))
    loop = TriggerLoop(shop.core, is_open=lambda: True)
    await fire_all(loop)
    shop.clock.at += HOUR

    async def add_model(project: str, name: str) -> None:
        at = shop.clock.at
        await add(shop, make_entity("model", name, project=project, state="READY", updated_at=at, created_at=at))

    await add_model("p", "m1")
    await add_model("q", "m2")
    assert await loop.fire_due() == 3
    assert await count_projects(shop) == {"p": 2, "q": 1}
    assert loop.is_busy
    assert await loop._find_pause() == 0
    if kind == "lifecycle":
        await add_model("q", "m3")
        assert await loop.fire_due() == 3
        assert await count_projects(shop) == {"p": 4, "q": 2}
    await fire_all(loop)
    assert (await count_projects(shop))["p"] == 6


async def test_others_fire_in_time_when_one_of_three_users_has_300_busy_projects(
    shop: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each firing takes a second of a clock that the test turns; a pass over 300 projects would take five minutes."""
    seconds, fired = 0.0, Counter[str]()

    async def fire_slowly(core: Core, trigger: Entity, occasion: Occasion, **_: Any) -> None:
        nonlocal seconds
        seconds += 1
        shop.clock.at += timedelta(seconds=1)
        fired[trigger.user] += 1
        noted = {"last": {"occasion": occasion.id}}
        await use_occasion(core, trigger, occasion.id, by=ADA, action="trigger.fire", result="done", noted=noted)

    monkeypatch.setattr(turns, "time", SimpleNamespace(monotonic=lambda: seconds))
    monkeypatch.setattr(scheduled_triggers, "fire", fire_slowly)
    async with shop.store.begin() as unit:
        for number in range(300):
            every_second = {"schedule": "* * * * * ?"}
            await unit.entities.add(make_trigger("a", project=f"p{number}", user="mallory", spec=every_second))
        for user in ("ada", "bob"):
            await unit.entities.add(make_trigger(user, user=user, spec={"schedule": "* * * * *"}))
        await unit.commit()
    loop = TriggerLoop(shop.core)
    end = shop.clock.at + timedelta(minutes=3, seconds=10)
    while shop.clock.at < end:
        shop.clock.at += timedelta(seconds=0.01)
        await loop.fire_due()
    assert (fired["ada"], fired["bob"]) == (3, 3)
    assert fired["mallory"] > 100
    for user in ("ada", "bob"):
        assert "missed" not in (await get_trigger(shop, user)).status


async def test_projects_take_turns_when_a_user_has_more_projects_than_a_turn_serves(
    shop: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "TURN_FIRINGS", 2)
    monkeypatch.setattr(turns, "TURN_SECONDS", 60)
    names = ["q", "r", "s"]
    for name in names:
        named = await furnish_project(shop, name)
        for number in range(3):
            await add(shop, make_trigger(f"{number}", project=name, spec={**named, "template": {}}))
    loop = TriggerLoop(shop.core)
    await fire_all(loop)
    shop.clock.at += HOUR
    counts = []
    for _ in range(3):
        assert await loop.fire_due() == 2
        counted = await count_projects(shop)
        counts.append(tuple(counted[name] for name in names))
    assert counts == [(2, 0, 0), (2, 2, 0), (2, 2, 2)]
    assert loop.is_busy
    assert await fire_all(loop) == 3
    assert await loop.fire_due() == 0
    assert await loop._find_pause() > 0


async def test_occasion_fires_late_when_the_loop_was_busy(shop: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_FIRINGS", 1)
    await add(shop, make_trigger("a"))
    await add(shop, make_trigger("b"))
    loop = TriggerLoop(shop.core)
    await fire_all(loop)
    shop.clock.at += HOUR
    assert await loop.fire_due() == 1
    shop.clock.at += timedelta(minutes=5)
    await fire_all(loop)
    assert len(await list_runs(shop)) == 2
    # After a rest nobody can tell whether a server was there.
    shop.clock.at += HOUR
    await fire_all(loop)
    assert len(await list_runs(shop)) == 2
    assert (await get_trigger(shop, "b")).status["missed"]["count"] == 1


async def test_no_change_is_skipped_when_a_trigger_becomes_another_users(
    shop: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "TURN_FIRINGS", 1)
    trigger = await add(shop, make_trigger("after", "lifecycle", spec=after("store://p/model/*", "READY")))
    await add(shop, make_trigger("bobs", "lifecycle", user="bob", spec=after("store://p/artifact/*", "READY")))
    for number in range(3):
        await add(shop, make_entity("model", f"m{number}", state="READY"))
    loop = TriggerLoop(shop.core, is_open=lambda: True)
    assert await loop.fire_due() == 1
    shop.clock.at += timedelta(minutes=10)
    assert await loop.fire_due() == 1
    spec = {key: value for key, value in trigger.spec.items() if key != "schedule"} | {"template": {"args": ["bob's"]}}
    await update_entity(shop.core, Principal(name="bob"), "trigger", "p", "after", {"kind": "lifecycle", "spec": spec})
    assert await fire_all(loop) == 1
    assert [run.user for run in await list_runs(shop)] == ["ada", "ada", "bob"]


async def test_pass_gives_way_when_no_schedule_is_due(shop: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "STEPS_BETWEEN_PAUSES", 10)
    async with shop.store.begin() as unit:
        for number in range(100):
            name = f"u{number}"
            await unit.entities.add(make_trigger("t", user=name, project=name, spec={"schedule": "@yearly"}))
        await unit.commit()
    loop = TriggerLoop(shop.core)
    await fire_all(loop)
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def note_pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", note_pause)
    assert await loop.fire_due() == 0
    assert pauses.count(0) >= 30
    pauses.clear()
    assert await loop._find_pause() > 0
    assert pauses.count(0) >= 10


async def test_scan_gives_way_when_there_are_many_triggers_and_no_change(
    shop: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle_triggers, "_STEPS_BETWEEN_PAUSES", 2)
    for number in range(10):
        # A client may repeat a state; it is compared once.
        spec = {**after("store://p/model/*", "READY"), "states": ["READY"] * 60}
        await add(shop, make_trigger(f"t{number}", "lifecycle", spec=spec))
    (trigger,) = [await get_trigger(shop, "t0")]
    assert list(lifecycle_triggers._list_states(trigger)) == ["READY"]
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def note_pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", note_pause)
    assert await fire_all(TriggerLoop(shop.core)) == 0
    assert pauses.count(0) >= 5


async def test_scan_gives_way_when_no_change_is_meant(shop: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle_triggers, "_STEPS_BETWEEN_PAUSES", 10)
    for number in range(10):
        await add(shop, make_trigger(f"t{number}", "lifecycle", spec=after("store://p/model/*/none", "READY")))
    for number in range(10):
        await add(shop, make_entity("model", f"m{number}", state="READY"))
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def note_pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", note_pause)
    assert await fire_all(TriggerLoop(shop.core)) == 0
    assert pauses.count(0) >= 10


async def test_trigger_keeps_its_own_time_when_another_project_uses_its_id(shop: World) -> None:
    await add(shop, make_trigger("t", spec={"schedule": "@yearly"}))
    named = await furnish_project(shop, "q")
    await add(shop, make_trigger("t", project="q", spec={**named, "schedule": "@hourly"}))
    loop = TriggerLoop(shop.core, is_open=lambda: True)
    await fire_all(loop)
    shop.clock.at += HOUR
    assert await fire_all(loop) == 1
    assert await count_projects(shop) == {"q": 1}


async def test_new_trigger_is_read_when_its_id_was_used_before(shop: World) -> None:
    await add(shop, make_trigger("t", spec={"schedule": "@yearly"}))
    loop = TriggerLoop(shop.core)
    await fire_all(loop)
    stored = await get_trigger(shop)
    async with shop.store.begin() as unit:
        await unit.entities.delete("trigger", "t", project="p")
        await unit.commit()
    shop.clock.at += timedelta(seconds=1)
    again = make_trigger("t", spec={"schedule": "@hourly"}, created_at=shop.clock.at, revision=stored.revision)
    await add(shop, again)
    shop.clock.at += HOUR
    assert await fire_all(loop) == 1
    assert len(await list_runs(shop)) == 1


async def test_loop_rests_when_the_triggers_of_an_unfinished_scan_are_stopped(
    shop: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A schedule of the same project goes on: its next time is far, and nothing is left to do until then."""
    monkeypatch.setattr(turns, "TURN_FIRINGS", 1)
    await add(shop, make_trigger("yearly", spec={"schedule": "@yearly"}))
    await add(shop, make_trigger("after", "lifecycle", spec=after("store://p/model/*", "READY")))
    for number in range(3):
        await add(shop, make_entity("model", f"m{number}", state="READY"))
    loop = TriggerLoop(shop.core)
    await loop.fire_due()
    assert loop.is_busy
    await stop_trigger(shop.core, ADA, "p", "after")
    await loop.fire_due()
    assert not loop.is_busy


async def test_loop_rests_when_the_changes_of_a_project_cannot_be_read(
    shop: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*given: Any, **named: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(SqlEntities, "list_changed", fail)
    await add(shop, make_trigger("after", "lifecycle", spec=after("store://p/model/*", "READY")))
    loop = TriggerLoop(shop.core)
    assert await loop.fire_due() == 0
    assert not loop.is_busy
