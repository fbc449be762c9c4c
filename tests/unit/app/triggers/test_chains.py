"""Chains of triggers are bounded in length and in the runs that one change leads to."""

from datetime import timedelta

import pytest

from runyard.app.entities.crud import create_entity
from runyard.app.loops.trigger_loop import TriggerLoop
from runyard.app.model import Principal
from runyard.app.runs.client_reports import report_run
from runyard.app.triggers import chains
from tests.unit.app.run_world import ADA, World
from tests.unit.app.shop import add, after, fire_all, get_trigger, list_runs, make_trigger


async def add_triggers(world: World, number: int) -> TriggerLoop:
    for each in range(number):
        await add(world, make_trigger(f"t{each}", "lifecycle", spec=after("store://p/run/*", "READY")))
    return TriggerLoop(world.core)


async def fire_until_nothing_is_left(world: World, loop: TriggerLoop) -> None:
    while await fire_all(loop):
        world.clock.at += timedelta(seconds=1)


async def test_runs_of_a_change_are_bounded_when_every_trigger_waits_for_every_run(
    shop: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chains, "MOST_CHAIN_RUNS", 7)
    loop = await add_triggers(shop, 4)  # 4 + 4·3 + 4·3·2 + 4·3·2·1 runs without the bound
    root = f"run/{(await shop.submit('r1')).uid}:READY:2"
    await fire_until_nothing_is_left(shop, loop)
    assert len(await list_runs(shop)) == 1 + 4 + 7
    problems = [(await get_trigger(shop, f"t{each}")).status["last"].get("problem", "") for each in range(4)]
    assert all(f"triggers made 7 runs of one change, {root}, and the limit is 7" in each for each in problems)
    refused = [entry for entry in await shop.audit() if (entry.action, entry.result) == ("trigger.fire", "refused")]
    assert len(refused) == 4  # once for each trigger, not for each run

    await fire_until_nothing_is_left(shop, TriggerLoop(shop.core))  # the count outlives the server
    assert len(await list_runs(shop)) == 12
    await shop.submit("r2")
    await fire_until_nothing_is_left(shop, loop)
    assert len(await list_runs(shop)) == 24


async def test_chain_ends_when_it_has_the_most_triggers(shop: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "MOST_CHAIN_TRIGGERS", 2)
    loop = await add_triggers(shop, 3)
    await shop.submit("r1")
    await fire_until_nothing_is_left(shop, loop)
    lengths = [len(run.metadata.get("triggers", ())) for run in await list_runs(shop)]
    assert sorted(lengths) == [0, *[1] * 3, *[2] * 6]
    problem = (await get_trigger(shop, "t0")).status["last"]["problem"]
    assert problem == (
        "2 triggers led to this run, and the limit is 2: "
        "let triggers wait for fewer runs, by a narrower `key` or fewer `states`"
    )


async def test_runs_are_not_counted_together_when_a_schedule_began_the_chain(
    shop: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A nightly run may make as many models as it likes, each of which is deployed by a trigger."""
    monkeypatch.setattr(chains, "MOST_CHAIN_RUNS", 2)
    await add(shop, make_trigger("nightly"))
    await add(shop, make_trigger("deploy", "lifecycle", spec=after("store://p/model/*", "READY")))
    loop = TriggerLoop(shop.core)
    await fire_all(loop)
    shop.clock.at += timedelta(hours=1)
    await fire_all(loop)
    [run] = await list_runs(shop)
    token = Principal(name="ada", run_id=run.id, run_uid=run.uid)
    for number in range(5):
        made = {"kind": "mlflow", "name": f"m{number}", "spec": {"path": "s3://b/m"}, "status": {"state": "READY"}}
        await create_entity(shop.core, token, "model", "p", made)
    await fire_all(loop)
    assert len(await list_runs(shop)) == 6


async def test_root_stays_when_a_client_writes_another(shop: World) -> None:
    loop = await add_triggers(shop, 1)
    root = f"run/{(await shop.submit('r1')).uid}:READY:2"
    await fire_all(loop)
    [run] = [run for run in await list_runs(shop) if run.id != "r1"]
    assert run.metadata["triggers_root"] == root
    forged = {"kind": run.kind, "metadata": {"triggers_root": "x", "description": "x"}}
    assert (await report_run(shop.core, ADA, "p", run.id, forged)).metadata["triggers_root"] == root
