import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from runyard.app.entities.crud import create_entity, update_entity
from runyard.app.entities.entity_types import make_key
from runyard.app.errors import Missing, NotPossible
from runyard.app.loops import lifecycle_triggers
from runyard.app.loops.trigger_loop import TriggerLoop
from runyard.app.model import Account, Entity, Principal, Share
from runyard.app.projects.entity_deletion import delete_entity
from runyard.app.runs.client_reports import report_run
from runyard.app.runs.run_deletion import delete_run
from runyard.app.runs.stop import stop_run
from runyard.app.runs.submission import submit_run
from runyard.app.triggers.firings import Occasion, fire, run_trigger, stop_trigger, use_occasion
from runyard.store.entities import SqlEntities
from runyard.store.metrics_and_firings import SqlFirings
from runyard.store.unit_of_work import SqlUnitOfWork
from tests.unit.app.run_world import ADA, START, World, until
from tests.unit.app.shop import TASK, add, after, fire_all, get_trigger, list_runs, make_entity, make_trigger

HOUR = timedelta(hours=1)


async def list_audit(world: World) -> list[tuple[str, str]]:
    return [(entry.action, entry.result) for entry in await world.audit() if entry.action.startswith("trigger.")]


async def test_run_is_submitted_as_its_creator_when_the_time_comes(shop: World) -> None:
    await add(shop, make_trigger())
    loop = TriggerLoop(shop.core)
    assert await fire_all(loop) == 0
    shop.clock.at += HOUR
    assert await fire_all(loop) == 1
    assert await fire_all(loop) == 0

    [run] = await list_runs(shop)
    assert (run.user, run.state, run.task, run.function) == ("ada", "READY", TASK, "container://p/f:f1")
    assert run.spec["args"] == ["at 2026-11-15T13:00:00+00:00", "by t"]
    assert run.metadata["triggers"] == ["t"]
    last = (await get_trigger(shop)).status["last"]
    assert (last["occasion"], last["run"]) == ("2026-11-15T13:00:00+00:00", run.id)
    assert await list_audit(shop) == [("trigger.scheduled", "done"), ("trigger.fire", "done")]


async def test_it_goes_on_when_hours_pass_one_by_one(shop: World) -> None:
    await add(shop, make_trigger())
    loop = TriggerLoop(shop.core)
    for _ in range(5):
        shop.clock.at += HOUR
        await fire_all(loop)
    assert len(await list_runs(shop)) == 5
    assert "missed" not in (await get_trigger(shop)).status


async def test_time_zone_decides_when_one_is_stated(shop: World) -> None:
    await add(shop, make_trigger(spec={"schedule": "0 0 15 * * ?", "timezone": "Europe/Rome"}))
    shop.clock.at += 2 * HOUR
    assert await fire_all(TriggerLoop(shop.core)) == 1
    assert (await get_trigger(shop)).status["last"]["occasion"] == "2026-11-15T14:00:00+00:00"


async def test_there_is_one_run_when_replicas_look_at_once(shop: World) -> None:
    await add(shop, make_trigger())
    loops = [TriggerLoop(shop.core) for _ in range(4)]
    await fire_all(loops[0])
    shop.clock.at += HOUR
    await asyncio.gather(*(fire_all(loop) for loop in loops))
    assert len(await list_runs(shop)) == 1
    assert await list_audit(shop) == [("trigger.scheduled", "done"), ("trigger.fire", "done")]


async def test_there_is_one_run_when_the_server_died_before_it_noted_that_it_fired(shop: World) -> None:
    class Crash(BaseException):
        pass

    trigger = await add(shop, make_trigger())
    await fire_all(TriggerLoop(shop.core))
    shop.clock.at += HOUR
    real = shop.core.signals.notify

    def crash(run_uid: str) -> None:
        real(run_uid)
        raise Crash

    shop.core.signals.notify = crash  # type: ignore[method-assign]
    with pytest.raises(Crash):
        await fire_all(TriggerLoop(shop.core))
    shop.core.signals.notify = real  # type: ignore[method-assign]
    assert await fire_all(TriggerLoop(shop.core)) == 1
    [run] = await list_runs(shop)
    assert (await get_trigger(shop, trigger.id)).status["last"]["run"] == run.id

    await delete_run(shop.core, ADA, "p", run.id)
    assert await fire_all(TriggerLoop(shop.core)) == 0


async def test_deleted_run_stays_deleted_when_its_occasion_is_fired_again(shop: World) -> None:
    trigger = await add(shop, make_trigger())
    occasion = Occasion(id="2026-11-15T13:00:00+00:00", input={"at": "2026-11-15T13:00:00+00:00"})
    first = await fire(shop.core, trigger, occasion)
    assert first.run_id is not None
    await delete_run(shop.core, ADA, "p", first.run_id)
    assert await fire(shop.core, trigger, occasion) == first
    assert await list_runs(shop) == []


async def test_missed_times_are_told_once_and_not_made_up_for_when_nobody_was_there(shop: World) -> None:
    await add(shop, make_trigger())
    await fire_all(TriggerLoop(shop.core))
    shop.clock.at += timedelta(hours=5, minutes=30)
    loop = TriggerLoop(shop.core)
    await fire_all(loop)
    await fire_all(loop)
    await fire_all(TriggerLoop(shop.core))

    assert await list_runs(shop) == []
    missed = (await get_trigger(shop)).status["missed"]
    assert (missed["count"], missed["first"], missed["last"]) == (
        5,
        "2026-11-15T13:00:00+00:00",
        "2026-11-15T17:00:00+00:00",
    )
    assert (await list_audit(shop)).count(("trigger.missed", "missed")) == 1
    shop.clock.at += timedelta(minutes=30)
    await fire_all(loop)
    assert len(await list_runs(shop)) == 1


async def test_last_time_fires_when_it_is_only_a_little_late(shop: World) -> None:
    await add(shop, make_trigger())
    await fire_all(TriggerLoop(shop.core))
    shop.clock.at += timedelta(hours=3, seconds=40)
    await fire_all(TriggerLoop(shop.core))
    assert len(await list_runs(shop)) == 1
    status = (await get_trigger(shop)).status
    assert (status["missed"]["count"], status["last"]["occasion"]) == (2, "2026-11-15T15:00:00+00:00")


async def test_count_has_an_end_when_very_many_were_missed(shop: World) -> None:
    await add(shop, make_trigger(spec={"schedule": "*/5 * * * *"}))
    await fire_all(TriggerLoop(shop.core))
    shop.clock.at += timedelta(days=60, minutes=3)
    loop = TriggerLoop(shop.core)
    await fire_all(loop)
    missed = (await get_trigger(shop)).status["missed"]
    assert (missed["count"], missed["is_at_least"], missed["last"]) == (1001, True, "2027-01-14T12:00:00+00:00")
    assert await fire_all(loop) == 0


async def test_new_schedule_has_no_past_when_it_is_changed(shop: World) -> None:
    trigger = await add(shop, make_trigger(spec={"schedule": "@yearly"}))
    loop = TriggerLoop(shop.core)
    await fire_all(loop)
    shop.clock.at += 3 * HOUR
    async with shop.store.begin() as unit:
        stored = await get_trigger(shop, trigger.id)
        await unit.entities.replace(replace(stored, spec={**stored.spec, "schedule": "@hourly"}))
        await unit.commit()
    await fire_all(loop)
    assert await list_runs(shop) == []
    assert "missed" not in (await get_trigger(shop)).status
    shop.clock.at += HOUR
    await fire_all(loop)
    assert len(await list_runs(shop)) == 1


@pytest.mark.parametrize("loss", ["account", "disabled", "share", "project"])
async def test_it_is_refused_and_told_when_its_creator_may_no_longer(shop: World, loss: str) -> None:
    async with shop.store.begin() as unit:
        await unit.accounts.put(Account(name="bob", created_at=START, is_disabled=loss == "disabled"))
        if loss != "share":
            await unit.accounts.put_share(Share(id="s", project="p", user="bob", role="editor"))
        if loss == "account":
            await unit.accounts.delete("bob")
        await unit.commit()
    project = "gone" if loss == "project" else "p"
    await add(shop, make_trigger(user="bob", project=project))
    loop = TriggerLoop(shop.core)
    await fire_all(loop)
    shop.clock.at += HOUR
    await fire_all(loop)
    assert await list_runs(shop) == []
    assert "problem" in (await get_trigger(shop, project=project)).status["last"]
    assert (await list_audit(shop))[-1] == ("trigger.fire", "refused")


async def test_shared_editor_fires_when_they_are_still_allowed(shop: World) -> None:
    async with shop.store.begin() as unit:
        await unit.accounts.put(Account(name="bob", created_at=START))
        await unit.accounts.put_share(Share(id="s", project="p", user="bob", role="editor"))
        await unit.commit()
    await add(shop, make_trigger(user="bob"))
    await fire_all(TriggerLoop(shop.core))
    shop.clock.at += HOUR
    await fire_all(TriggerLoop(shop.core))
    assert [run.user for run in await list_runs(shop)] == ["bob"]


async def test_anybody_fires_when_the_server_has_no_accounts(shop: World) -> None:
    await add(shop, make_trigger(user="someone"))
    await fire_all(TriggerLoop(shop.core, is_open=lambda: True))
    shop.clock.at += HOUR
    await fire_all(TriggerLoop(shop.core, is_open=lambda: True))
    assert [run.user for run in await list_runs(shop)] == ["someone"]


@pytest.mark.parametrize(
    ("template", "words"),
    [({"args": ["{{input.nothing}}"]}, "has no value"), ({"resources": {"cpu": "lots"}}, "cpu")],
)
async def test_problem_is_told_when_the_template_makes_no_run(
    shop: World, template: dict[str, Any], words: str
) -> None:
    await add(shop, make_trigger(spec={"template": template}))
    with pytest.raises(NotPossible, match=words):
        await run_trigger(shop.core, ADA, "p", "t")
    assert words in (await get_trigger(shop)).status["last"]["problem"]


async def test_foreign_kind_is_refused_when_it_should_fire(shop: World) -> None:
    await add(shop, make_trigger(kind="automl"))
    assert await fire_all(TriggerLoop(shop.core)) == 0
    with pytest.raises(NotPossible, match="never fire"):
        await run_trigger(shop.core, ADA, "p", "t")


async def test_it_fires_at_once_when_somebody_asks(shop: World) -> None:
    await add(shop, make_trigger())
    await run_trigger(shop.core, ADA, "p", "t")
    answered = await run_trigger(shop.core, ADA, "p", "t")
    runs = await list_runs(shop)
    assert len(runs) == 2
    assert answered.status["last"]["run"] in {run.id for run in runs}
    await fire_all(TriggerLoop(shop.core))
    shop.clock.at += HOUR
    await fire_all(TriggerLoop(shop.core))
    assert len(await list_runs(shop)) == 3


async def test_it_rests_when_it_is_paused_and_has_no_past_when_it_goes_on(shop: World) -> None:
    await add(shop, make_trigger())
    loop = TriggerLoop(shop.core)
    await fire_all(loop)
    assert (await stop_trigger(shop.core, ADA, "p", "t")).state == "STOPPED"
    await stop_trigger(shop.core, ADA, "p", "t")
    shop.clock.at += 3 * HOUR
    assert await fire_all(loop) == 0
    assert (await run_trigger(shop.core, ADA, "p", "t")).state == "RUNNING"
    await fire_all(loop)
    assert "missed" not in (await get_trigger(shop)).status
    assert len(await list_runs(shop)) == 1
    shop.clock.at += HOUR
    await fire_all(loop)
    assert len(await list_runs(shop)) == 2
    with pytest.raises(Missing):
        await stop_trigger(shop.core, ADA, "q", "t")


async def test_loop_pauses_until_the_next_time_when_it_is_near(shop: World) -> None:
    await add(shop, make_trigger())
    loop = TriggerLoop(shop.core, poll_seconds=5)
    await fire_all(loop)
    assert await loop._find_pause() == 5
    shop.clock.at += timedelta(minutes=59, seconds=58)
    assert await loop._find_pause() == 2


async def test_run_fires_what_waits_for_its_state_when_it_comes_to_it(shop: World) -> None:
    spec = after("store://p/run/*", "STOPPED", args=["{{input.key}}", "{{input.status.state}}"])
    await add(shop, make_trigger("after", "lifecycle", spec=spec))
    await shop.submit("r1")
    loop = TriggerLoop(shop.core)
    assert await fire_all(loop) == 0
    shop.clock.at += timedelta(seconds=1)
    await stop_run(shop.core, ADA, "p", "r1")
    assert await fire_all(loop) == 1
    assert await fire_all(loop) == 0
    assert await fire_all(TriggerLoop(shop.core)) == 0  # another replica finds the occasion used
    [made] = [run for run in await list_runs(shop) if run.id != "r1"]
    assert make_key(await shop.get("r1")) == "store://p/run/container+job:run/r1"
    assert made.spec["args"] == [make_key(await shop.get("r1")), "STOPPED"]


async def test_run_fires_at_once_when_the_loop_polls_seldom(shop: World) -> None:
    await add(shop, make_trigger("after", "lifecycle", spec=after("store://p/run/*", "STOPPED")))
    await shop.submit("r1")
    task = asyncio.create_task(TriggerLoop(shop.core, poll_seconds=600).run())
    await asyncio.sleep(0.5)  # its first pass is over
    shop.clock.at += timedelta(seconds=1)
    await stop_run(shop.core, ADA, "p", "r1")

    async def has_fired() -> bool:
        return len(await list_runs(shop)) == 2

    async with asyncio.timeout(30):
        await until(has_fired)
    task.cancel()


async def test_trigger_never_fires_because_of_itself_when_it_waits_for_every_run(shop: World) -> None:
    await add(shop, make_trigger("a", "lifecycle", spec=after("store://p/run/*", "READY")))
    await add(shop, make_trigger("b", "lifecycle", spec=after("store://p/*", "READY")))
    await shop.submit("r1")
    loop = TriggerLoop(shop.core)
    counts = []
    for _ in range(5):
        counts.append(await fire_all(loop))
        shop.clock.at += timedelta(seconds=1)
    assert counts[-1] == 0
    chains = sorted(tuple(run.metadata.get("triggers", ())) for run in await list_runs(shop))
    assert chains == [(), ("a",), ("a", "b"), ("b",), ("b", "a")]


async def test_model_fires_what_waits_for_it_when_it_is_ready(shop: World) -> None:
    spec = after("store://p/model/*/churn*", "READY", args=["{{input.name}}"])
    await add(shop, make_trigger("after", "lifecycle", spec=spec))
    shop.clock.at += timedelta(seconds=1)
    for name, state in (("churn-2", "READY"), ("other", "READY"), ("churn-3", "UPLOADING")):
        model = make_entity("model", name, kind="mlflow", state=state, updated_at=shop.clock.at)
        await add(shop, model)
    loop = TriggerLoop(shop.core)
    assert await fire_all(loop) == 1
    assert await fire_all(loop) == 0
    assert [run.spec["args"] for run in await list_runs(shop)] == [["churn-2"]]


async def test_every_model_fires_when_there_are_more_than_a_page(shop: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle_triggers, "_PAGE", 3)
    await add(shop, make_trigger("after", "lifecycle", spec=after("store://p/model/*", "READY")))
    for number in range(8):
        await add(shop, make_entity("model", f"m{number}", kind="mlflow", state="READY"))
    assert await fire_all(TriggerLoop(shop.core)) == 8
    assert len(await list_runs(shop)) == 8


async def test_every_run_fires_when_there_are_more_than_a_page(shop: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle_triggers, "_PAGE", 3)
    await add(shop, make_trigger("after", "lifecycle", spec=after("store://p/run/*", "STOPPED")))
    for number in range(8):
        await shop.submit(f"r{number}")
        await stop_run(shop.core, ADA, "p", f"r{number}")
    assert await fire_all(TriggerLoop(shop.core)) == 8


async def test_model_fires_when_its_write_was_committed_after_a_later_look(shop: World) -> None:
    await add(shop, make_trigger("after", "lifecycle", spec=after("store://p/model/*", "READY")))
    loop = TriggerLoop(shop.core)
    shop.clock.at += timedelta(seconds=30)
    assert await fire_all(loop) == 0
    written_at = shop.clock.at - timedelta(seconds=10)
    await add(shop, make_entity("model", "m", kind="mlflow", state="READY", updated_at=written_at))
    assert await fire_all(loop) == 1


async def test_model_fires_again_when_it_comes_back_to_the_state_and_not_when_it_stays(shop: World) -> None:
    await add(shop, make_trigger("after", "lifecycle", spec=after("store://p/model/*", "READY")))
    await add(shop, make_entity("model", "m", kind="mlflow", state="READY"))
    loop = TriggerLoop(shop.core)
    counts = [await fire_all(loop)]
    for state in ("READY", "UPLOADING", "READY", "READY"):
        shop.clock.at += timedelta(seconds=1)
        document = {"kind": "mlflow", "status": {"state": state}, "metadata": {"description": str(shop.clock.at)}}
        await update_entity(shop.core, ADA, "model", "p", "m", document)
        counts.append(await fire_all(loop))
    assert counts == [1, 0, 0, 1, 0]
    await fire_all(TriggerLoop(shop.core))
    assert len(await list_runs(shop)) == 2


async def test_model_does_not_fire_when_it_is_only_described_after_the_trigger_was_made(shop: World) -> None:
    await add(shop, make_entity("model", "m", kind="mlflow", state="READY"))
    shop.clock.at += timedelta(seconds=1)
    spec = after("store://p/model/*", "READY")
    await add(shop, make_trigger("after", "lifecycle", spec=spec, created_at=shop.clock.at))
    shop.clock.at += timedelta(seconds=1)
    await update_entity(shop.core, ADA, "model", "p", "m", {"kind": "mlflow", "metadata": {"description": "x"}})
    assert await fire_all(TriggerLoop(shop.core)) == 0


async def test_chain_ends_when_a_run_does_not_say_that_it_made_what_started_it(shop: World) -> None:
    await add(shop, make_trigger("after", "lifecycle", spec=after("store://p/model/*", "READY")))
    await add(shop, make_entity("model", "m", kind="mlflow", state="READY"))
    loop = TriggerLoop(shop.core)
    await fire_all(loop)
    [run] = await list_runs(shop)
    token = replace(ADA, run_id=run.id, run_uid=run.uid)
    emptied = {"kind": run.kind, "metadata": {"triggers": [], "description": "x"}}
    assert (await report_run(shop.core, token, "p", run.id, emptied)).metadata["triggers"] == ["after"]
    made = {"kind": "mlflow", "name": "m2", "spec": {"path": "s3://b/m"}, "status": {"state": "READY"}}
    await create_entity(shop.core, token, "model", "p", made)
    assert await fire_all(loop) == 0
    assert len(await list_runs(shop)) == 1


async def test_run_fires_what_waits_for_it_when_its_client_names_the_trigger(shop: World) -> None:
    await add(shop, make_trigger("after", "lifecycle", spec=after("store://p/run/*", "READY")))
    forged = {"kind": "container+job:run", "id": "r1", "metadata": {"triggers": ["after"]}, "spec": {"task": TASK}}
    assert "triggers" not in (await submit_run(shop.core, ADA, "p", forged))[0].metadata
    assert await fire_all(TriggerLoop(shop.core)) == 1


@pytest.mark.parametrize("kind", ["scheduler", "lifecycle"])
async def test_trigger_fires_as_who_changed_its_spec_when_it_was_not_who_made_it(shop: World, kind: str) -> None:
    async with shop.store.begin() as unit:
        await unit.accounts.put(Account(name="bob", created_at=START))
        await unit.accounts.put_share(Share(id="s", project="p", user="bob", role="editor"))
        await unit.commit()
    spec: dict[str, Any] = {"task": TASK, "function": "container://p/f:f1"}
    spec |= {"schedule": "@hourly"} if kind == "scheduler" else {"key": "store://p/model/*", "states": ["READY"]}
    await create_entity(shop.core, ADA, "trigger", "p", {"kind": kind, "name": "t", "id": "t", "spec": spec})
    loop = TriggerLoop(shop.core)
    await fire_all(loop)
    bob = Principal(name="bob")
    described = {"kind": kind, "spec": spec, "metadata": {"runs_as": "root", "description": "x"}}
    assert "runs_as" not in (await update_entity(shop.core, bob, "trigger", "p", "t", described)).metadata
    changed = {"kind": kind, "spec": {**spec, "template": {"args": ["bob's"]}}, "metadata": {"runs_as": "ada"}}
    assert (await update_entity(shop.core, bob, "trigger", "p", "t", changed)).metadata["runs_as"] == "bob"
    await update_entity(shop.core, ADA, "trigger", "p", "t", {**changed, "metadata": {"description": "y"}})
    shop.clock.at += HOUR
    await add(shop, make_entity("model", "m", kind="mlflow", state="READY", updated_at=shop.clock.at))
    await fire_all(loop)
    assert [run.user for run in await list_runs(shop)] == ["bob"]
    [told] = [entry for entry in await shop.audit() if entry.action == "trigger.fire"]
    assert (told.actor, told.details["runs_as"], told.details["created_by"]) == ("bob", "bob", "ada")


async def add_bob(world: World, *, is_new: bool = False) -> Principal:
    """An account that may write in the project, created now; `is_new`: deleted before."""
    async with world.store.begin() as unit:
        if is_new:
            await unit.accounts.delete("bob")
        await unit.accounts.put(Account(name="bob", created_at=world.clock.now()))
        await unit.accounts.put_share(Share(id="s", project="p", user="bob", role="editor"))
        await unit.commit()
    return Principal(name="bob")


@pytest.mark.parametrize("is_changed", [False, True])
async def test_new_account_does_not_fire_when_the_spec_is_of_an_earlier_one_of_its_name(
    shop: World, is_changed: bool
) -> None:
    bob = await add_bob(shop)
    shop.clock.at += timedelta(seconds=1)
    spec: dict[str, Any] = {"task": TASK, "function": "container://p/f:f1", "schedule": "@hourly"}
    document = {"kind": "scheduler", "name": "t", "id": "t", "spec": spec}
    await create_entity(shop.core, ADA if is_changed else bob, "trigger", "p", document)
    if is_changed:
        changed = {**document, "spec": {**spec, "template": {"args": ["bob's"]}}}
        assert (await update_entity(shop.core, bob, "trigger", "p", "t", changed)).metadata["runs_as"] == "bob"
    loop = TriggerLoop(shop.core)
    await fire_all(loop)
    shop.clock.at += HOUR
    assert await fire_all(loop) == 1
    assert [run.user for run in await list_runs(shop)] == ["bob"]

    await add_bob(shop, is_new=True)
    described = {**document, "spec": (await get_trigger(shop)).spec, "metadata": {"description": "x"}}
    shop.clock.at += HOUR
    await update_entity(shop.core, bob, "trigger", "p", "t", described)
    assert await fire_all(loop) == 1
    assert len(await list_runs(shop)) == 1
    assert "created again" in (await get_trigger(shop)).status["last"]["problem"]

    written = {**document, "spec": {**spec, "template": {"args": ["new"]}}}
    await update_entity(shop.core, bob, "trigger", "p", "t", written)
    shop.clock.at += HOUR
    await fire_all(loop)
    assert [run.spec.get("args") for run in await list_runs(shop)][-1] == ["new"]


async def test_trigger_fires_as_who_changed_it_when_the_time_was_not_noted(shop: World) -> None:
    """Triggers that were changed before the time of a change was noted: it was the last update at the latest."""
    shop.clock.at += timedelta(seconds=1)
    await add_bob(shop)
    await add(shop, make_trigger(metadata={"runs_as": "bob"}, updated_at=shop.clock.at))
    await run_trigger(shop.core, ADA, "p", "t")
    assert [run.user for run in await list_runs(shop)] == ["bob"]


async def test_chain_goes_by_the_run_that_made_the_model_when_its_id_is_used_again(shop: World) -> None:
    await add(shop, make_trigger("after", "lifecycle", spec=after("store://p/model/*", "READY", args=["{{input.id}}"])))
    document = {"kind": "container+job:run", "id": "r1", "spec": {"task": TASK}}

    async def make_model(model_id: str, *, chain: list[str]) -> None:
        run, _ = await submit_run(shop.core, ADA, "p", document, noted={"triggers": chain})
        model = {"kind": "mlflow", "id": model_id, "name": "m", "status": {"state": "READY"}}
        model["spec"] = {"path": "s3://b/m"}
        await create_entity(shop.core, replace(ADA, run_id=run.id, run_uid=run.uid), "model", "p", model)

    await make_model("m1", chain=[])
    await delete_run(shop.core, ADA, "p", "r1")
    await make_model("m2", chain=["after"])
    await fire_all(TriggerLoop(shop.core))
    assert [run.spec["args"] for run in await list_runs(shop) if run.id != "r1"] == [["m1"]]


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_new_trigger_fires_when_an_earlier_one_of_its_id_fired_for_the_same(
    shop: World, is_deleted: bool
) -> None:
    occasion = Occasion(id="2026-11-15T13:00:00+00:00", input={"at": "2026-11-15T13:00:00+00:00"})
    first = await fire(shop.core, await add(shop, make_trigger()), occasion)
    if is_deleted:
        await delete_run(shop.core, ADA, "p", str(first.run_id))
    await delete_entity(shop.core, ADA, "trigger", "p", "t")
    shop.clock.at += timedelta(seconds=1)
    trigger = await add(shop, make_trigger(created_at=shop.clock.at, spec={"template": {"args": ["new"]}}))
    second = await fire(shop.core, trigger, occasion)
    assert [run.spec["args"] for run in await list_runs(shop) if run.id == second.run_id] == [["new"]]
    assert (await get_trigger(shop)).status["last"]["run"] == second.run_id != first.run_id


async def test_new_trigger_inherits_nothing_when_an_earlier_one_of_its_id_was_deleted_as_it_fired(shop: World) -> None:
    old = await add(shop, make_trigger(kind="lifecycle", spec=after("store://p/model/*", "READY")))
    await delete_entity(shop.core, ADA, "trigger", "p", "t")
    occasion = Occasion(id="model/m:READY:2026-11-15T12:00:00+00:00", input={})
    assert (await fire(shop.core, old, occasion)).problem is None
    shop.clock.at += timedelta(seconds=1)
    await add(shop, make_trigger(created_at=shop.clock.at))
    assert (await fire(shop.core, old, occasion)).problem is None
    assert "last" not in (await get_trigger(shop)).status
    loop = TriggerLoop(shop.core)
    await fire_all(loop)
    shop.clock.at += HOUR
    assert await fire_all(loop) == 1


async def test_trigger_is_locked_before_it_is_read_when_it_is_written(
    shop: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    lock, find, use = SqlUnitOfWork.lock, SqlEntities.find, SqlFirings.use

    async def note_lock(unit: Any, name: str) -> None:
        steps.append(f"lock {name}")
        await lock(unit, name)

    async def note_find(entities: Any, type_name: str, *given: Any, **named: Any) -> Entity | None:
        steps.append(f"find {type_name}")
        return await find(entities, type_name, *given, **named)

    async def note_use(firings: Any, *given: Any, **named: Any) -> bool:
        steps.append("use")
        return await use(firings, *given, **named)

    trigger = await add(shop, make_trigger())
    monkeypatch.setattr(SqlUnitOfWork, "lock", note_lock)
    monkeypatch.setattr(SqlEntities, "find", note_find)
    monkeypatch.setattr(SqlFirings, "use", note_use)
    await stop_trigger(shop.core, ADA, "p", "t")
    assert steps == ["lock trigger:p/t", "find trigger"]
    steps.clear()
    await use_occasion(shop.core, trigger, "o", by=ADA, action="trigger.fire", result="done", noted={})
    assert steps == ["lock trigger:p/t", "find trigger", "use"]


async def test_chain_ends_when_a_run_makes_what_started_it(shop: World) -> None:
    await add(shop, make_trigger("after", "lifecycle", spec=after("store://p/model/*", "READY")))
    await add(shop, make_entity("model", "m", kind="mlflow", state="READY"))
    loop = TriggerLoop(shop.core)
    await fire_all(loop)
    [run] = await list_runs(shop)
    relation = {"type": "produced_by", "dest": f"store://p/run/container+job:run/{run.id}:{run.id}"}
    made = make_entity("model", "m2", kind="mlflow", state="READY", metadata={"relationships": [relation]})
    await add(shop, made)
    assert await fire_all(loop) == 0
    assert len(await list_runs(shop)) == 1


async def test_nothing_fires_when_it_happened_before_the_trigger_or_while_it_rested(shop: World) -> None:
    await add(shop, make_entity("model", "m", kind="mlflow", state="READY"))
    shop.clock.at += timedelta(seconds=1)
    spec = after("store://p/*", "READY", "COMPLETED")
    await add(shop, make_trigger("after", "lifecycle", spec=spec, created_at=shop.clock.at))
    await stop_trigger(shop.core, ADA, "p", "after")
    await shop.submit("r1", is_local=True, state="RUNNING")
    done = {"kind": "container+job:run", "status": {"state": "COMPLETED"}}
    await report_run(shop.core, ADA, "p", "r1", done)
    shop.clock.at += timedelta(seconds=1)
    await run_trigger(shop.core, ADA, "p", "after")
    loop = TriggerLoop(shop.core)
    assert await fire_all(loop) == 0
