"""What is observed: small, versioned, structured, and never wrong about absence."""

import json
from contextlib import suppress
from datetime import datetime

import pytest

from runyard.app.engine import (
    LARGEST_DESCRIPTION_BYTES,
    LARGEST_DETAILS_BYTES,
    MOST_ENDS,
    STATUS_KEYS,
    EngineUnavailable,
)
from runyard.domain.outcomes import ENDED, Seen
from runyard.domain.reasons import Reason
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.resources import Sides
from tests.contract.engine.lab import (
    Lab,
    assign,
    assign_again,
    assign_service,
    assign_with_secret,
    begin,
    begin_and_see,
    eventually,
    make_anchor,
    needs,
    see,
    to_json,
)
from tests.contract.engine.scripts import FILL_MEMORY, WAIT_FOREVER, leave, say


async def test_place_is_the_same_when_another_process_opens_the_engine(lab: Lab) -> None:
    before = lab.engine.place
    assert before.engine
    assert before.uid
    await begin_and_see(lab, assign(lab), Seen.RUNNING)
    assert lab.engine.place == before
    assert (await lab.reopen()).place == before
    assert str(before) == f"{before.engine}/{before.uid}"


async def test_it_is_pending_when_it_was_released_and_cannot_start(lab: Lab) -> None:
    cores = Quantity.parse("100000")
    run = assign(lab, spec={"resources": {"cpu": Sides(requests=cores, limits=cores)}})
    anchor = make_anchor(run, await lab.engine.ensure_anchor(run))
    assert (await lab.engine.observe(anchor)).seen is Seen.HELD
    await lab.engine.release(run, anchor.uid)
    await see(lab, anchor, Seen.PENDING)
    await lab.pass_time()
    seen = await lab.engine.observe(anchor)
    assert seen.seen is Seen.PENDING
    assert seen.message
    await lab.engine.stop(assign_again(run, generation=2), anchor.uid)
    assert (await see(lab, anchor, *ENDED)).ends == ()


async def test_version_grows_when_something_happens(lab: Lab) -> None:
    run = assign(lab)
    anchor = make_anchor(run, await lab.engine.ensure_anchor(run))
    seen = [await see(lab, anchor, Seen.HELD)]
    await lab.engine.release(run, anchor.uid)
    seen.append(await see(lab, anchor, Seen.RUNNING))
    await lab.engine.stop(assign_again(run, generation=2), anchor.uid)
    seen.append(await see(lab, anchor, Seen.STOPPED))
    versions = [(each.epoch, each.version) for each in seen]
    assert versions == sorted(set(versions))
    assert {(each.run_uid, each.uid) for each in seen} == {(run.run_uid, anchor.uid)}


@needs("epochs")
async def test_epoch_grows_when_versions_begin_anew(lab: Lab) -> None:
    run = assign(lab)
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    before = await lab.engine.observe(anchor)
    await lab.begin_epoch()
    after = await eventually(lab, lambda: lab.engine.observe(anchor), lambda seen: seen.epoch > before.epoch)
    assert (after.uid, after.seen, after.generation) == (before.uid, before.seen, before.generation)
    assert (await (await lab.reopen()).observe(anchor)).epoch == after.epoch
    await lab.lose(run)
    assert (await see(lab, anchor, Seen.ABSENT)).epoch >= after.epoch


async def test_success_is_seen_when_the_work_ends_well(lab: Lab) -> None:
    anchor = await begin(lab, assign(lab, say("done")))
    seen = await see(lab, anchor, *ENDED)
    assert seen.seen is Seen.SUCCEEDED
    (end,) = seen.ends
    assert (end.exit_code, end.signal, end.is_out_of_memory, end.instance) == (0, None, False, 0)


async def test_exit_code_is_seen_when_the_work_fails(lab: Lab) -> None:
    anchor = await begin(lab, assign(lab, leave(3)))
    seen = await see(lab, anchor, *ENDED)
    assert seen.seen is Seen.FAILED
    (end,) = seen.ends
    assert (end.exit_code, end.signal, end.is_out_of_memory) == (3, None, False)


async def test_signal_is_seen_when_the_process_was_killed(lab: Lab) -> None:
    run = assign(lab)
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    await lab.kill(run, 9)
    seen = await see(lab, anchor, *ENDED)
    assert seen.seen is Seen.FAILED
    (end,) = seen.ends
    assert (end.signal, end.is_out_of_memory) == (9, False)


async def test_out_of_memory_is_seen_when_the_limit_was_reached(lab: Lab) -> None:
    run = assign(lab, FILL_MEMORY)
    anchor = await begin(lab, run)
    seen = await see(lab, anchor, *ENDED)
    assert seen.seen is Seen.FAILED
    (end,) = seen.ends
    assert end.is_out_of_memory
    limit = run.effective.resources["mem"].limits
    assert limit is not None
    assert end.peak_bytes is None or limit.value // 2 <= end.peak_bytes
    # A watchdog that looks now and then tells the truth, which may be far above the limit.
    is_bounded = end.peak_bytes is None or end.peak_bytes <= limit.value * 2
    assert is_bounded or "hard limits" not in lab.capabilities


@needs("judged memory")
async def test_run_has_failed_when_a_part_of_it_ran_out_of_memory_and_its_exit_code_says_success(lab: Lab) -> None:
    anchor = await begin(lab, assign(lab, FILL_MEMORY, leave(0)))
    seen = await see(lab, anchor, *ENDED)
    assert seen.seen is Seen.FAILED
    assert [end.is_out_of_memory for end in seen.ends] == [True]


async def test_each_instance_ends_for_itself_when_a_container_is_started_again(lab: Lab) -> None:
    anchor = await begin(lab, assign_service(lab, leave(4)))
    seen = await eventually(lab, lambda: lab.engine.observe(anchor), lambda seen: len(seen.ends) >= 2)
    first, second = seen.ends[:2]
    assert (first.exit_code, second.exit_code) == (4, 4)
    assert (first.pod, first.container, first.instance) != (second.pod, second.container, second.instance)
    assert seen.seen in (Seen.RUNNING, Seen.PENDING)


@needs("many restarts")
async def test_newest_ends_are_listed_when_there_are_too_many(lab: Lab) -> None:
    run = assign_service(lab)
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    await lab.restart_often(run, MOST_ENDS + 5)
    seen = await eventually(
        lab,
        lambda: lab.engine.observe(anchor),
        lambda seen: bool(seen.ends) and seen.ends[-1].instance >= MOST_ENDS + 4,
    )
    assert len(seen.ends) == MOST_ENDS


@needs("floods")
async def test_details_are_small_when_much_happened(lab: Lab) -> None:
    run = assign(lab)
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    await lab.flood(run)
    seen = await eventually(lab, lambda: lab.engine.observe(anchor), lambda seen: bool(seen.details.get("events")))
    assert len(json.dumps(seen.details).encode()) <= LARGEST_DETAILS_BYTES
    assert set(seen.details) <= set(STATUS_KEYS)


@needs("floods")
async def test_description_is_bounded_when_much_happened(lab: Lab) -> None:
    run = assign(lab)
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    await lab.flood(run)
    described = await lab.engine.describe(anchor)
    assert described
    assert len(json.dumps(described).encode()) <= LARGEST_DESCRIPTION_BYTES


async def test_values_of_secrets_are_not_shown_when_a_run_is_observed_or_described(lab: Lab) -> None:
    anchor = await begin_and_see(lab, assign_with_secret(lab, "value-51"), Seen.RUNNING)
    shown = to_json(await lab.engine.observe(anchor)) + json.dumps(await lab.engine.describe(anchor))
    assert "value-51" not in shown


@needs("cut")
async def test_nothing_is_absent_when_the_place_cannot_be_reached(lab: Lab) -> None:
    run, unknown = assign(lab), assign(lab)
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    await lab.cut()
    for known in (anchor, make_anchor(unknown, "unknown")):
        with suppress(EngineUnavailable):
            assert (await lab.engine.observe(known)).seen is not Seen.ABSENT
    for asked in (run, unknown):
        with pytest.raises(EngineUnavailable) as failure:
            await lab.engine.find_anchor(asked)
        assert failure.value.code in set(Reason)
    await lab.mend()
    await see(lab, anchor, Seen.RUNNING)
    assert await lab.engine.find_anchor(run) == anchor.uid


@needs("cut")
async def test_calls_can_be_retried_when_the_place_could_not_be_reached(lab: Lab) -> None:
    run = assign(lab, WAIT_FOREVER)
    uid = await lab.engine.ensure_anchor(run)
    anchor = make_anchor(run, uid)
    await lab.cut()
    with pytest.raises(EngineUnavailable):
        await lab.engine.release(run, uid)
    with pytest.raises(EngineUnavailable):
        await lab.engine.ensure_anchor(run)
    with pytest.raises(EngineUnavailable):
        await lab.engine.remove(anchor)
    await lab.mend()
    assert await lab.engine.ensure_anchor(run) == uid
    await lab.engine.release(run, uid)
    await see(lab, anchor, Seen.RUNNING)


async def test_snapshot_shows_nodes_and_pods_when_something_runs(lab: Lab) -> None:
    await begin_and_see(lab, assign(lab), Seen.RUNNING)
    snapshot = await eventually(lab, lab.engine.snapshot, lambda taken: bool(taken.pods or taken.unseen))
    assert datetime.fromisoformat(snapshot.at).utcoffset() is not None
    assert snapshot.nodes or snapshot.unseen
    json.dumps([*snapshot.nodes, *snapshot.pods])
    assert all(node["metadata"]["name"] for node in snapshot.nodes)
    assert all(pod["metadata"]["name"] for pod in snapshot.pods)
