"""One run, one anchor: created once, held until it is released, changed only by its UID."""

import asyncio

import pytest

from runyard.app.engine import EngineRefusal
from runyard.domain.outcomes import Seen
from runyard.domain.reasons import Reason
from tests.contract.engine.lab import (
    Lab,
    assign,
    assign_again,
    begin,
    begin_and_see,
    eventually,
    make_anchor,
    needs,
    see,
)


async def test_anchor_is_the_same_when_it_is_ensured_again(lab: Lab) -> None:
    run = assign(lab)
    first = await lab.engine.ensure_anchor(run)
    assert await lab.engine.ensure_anchor(run) == first
    assert await lab.engine.find_anchor(run) == first


async def test_there_is_one_anchor_when_two_processes_ensure_it_many_times_at_once(lab: Lab) -> None:
    run = assign(lab)
    other = await lab.reopen()
    engines = [lab.engine, other] * 10
    found = await asyncio.gather(*(engine.ensure_anchor(run) for engine in engines))
    assert len(set(found)) == 1
    listed = (await lab.engine.list_anchors()).observations
    assert [anchor.uid for anchor, _ in listed if anchor.run_uid == run.run_uid] == found[:1]


async def test_runs_have_anchors_of_their_own_when_their_ids_differ(lab: Lab) -> None:
    first, second = assign(lab, run_id="r1"), assign(lab, run_id="r2")
    assert await lab.engine.ensure_anchor(first) != await lab.engine.ensure_anchor(second)


async def test_no_anchor_is_found_when_none_was_created(lab: Lab) -> None:
    assert await lab.engine.find_anchor(assign(lab)) is None


async def test_anchor_is_of_its_run_when_a_run_of_the_same_id_was_there_before(lab: Lab) -> None:
    earlier, later = assign(lab), assign(lab)
    first = await lab.engine.ensure_anchor(earlier)
    assert await lab.engine.find_anchor(later) is None
    second = await lab.engine.ensure_anchor(later)
    assert second != first
    assert (await lab.engine.find_anchor(earlier), await lab.engine.find_anchor(later)) == (first, second)


async def test_only_one_starts_when_two_runs_of_different_projects_have_the_same_id(lab: Lab) -> None:
    here, there = assign(lab), assign(lab, project=lab.other_project)
    first = await lab.engine.ensure_anchor(here)
    anchor = await begin_and_see(lab, there, Seen.RUNNING)
    assert anchor.uid != first
    assert (await lab.engine.observe(make_anchor(here, first))).seen is Seen.HELD


async def test_nothing_starts_when_the_anchor_was_not_released(lab: Lab) -> None:
    run = assign(lab)
    anchor = make_anchor(run, await lab.engine.ensure_anchor(run))
    await lab.pass_time()
    assert (await lab.engine.observe(anchor)).seen is Seen.HELD
    assert await lab.engine.list_log_sources(anchor) == []


@needs("strangers")
async def test_run_is_refused_and_the_stranger_stays_when_another_object_has_its_name(lab: Lab) -> None:
    run = assign(lab)
    await lab.take_name(run)
    with pytest.raises(EngineRefusal) as refusal:
        await lab.engine.ensure_anchor(run)
    assert refusal.value.code is Reason.ANCHOR_TAKEN
    assert await lab.engine.find_anchor(run) is None
    assert await lab.is_name_taken(run)


async def test_it_is_absent_when_somebody_deleted_it_and_no_call_creates_it_again(lab: Lab) -> None:
    run = assign(lab)
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    await lab.lose(run)
    await lab.engine.release(run, anchor.uid)
    await lab.engine.stop(assign_again(run, generation=2), anchor.uid)
    await lab.engine.settle(assign_again(run, generation=2), anchor.uid)
    await lab.engine.remove(anchor)
    await see(lab, anchor, Seen.ABSENT)
    await lab.pass_time()
    assert await lab.engine.find_anchor(run) is None
    await eventually(lab, lambda: lab.count_objects(run.run_uid), lambda count: count == 0)


async def test_newer_anchor_is_untouched_when_calls_name_the_older_uid(lab: Lab) -> None:
    run = assign(lab)
    old = make_anchor(run, await lab.engine.ensure_anchor(run))
    await lab.lose(run)
    await see(lab, old, Seen.ABSENT)
    new = make_anchor(run, await lab.engine.ensure_anchor(run))
    assert new.uid != old.uid
    await lab.engine.release(run, old.uid)
    await lab.engine.stop(assign_again(run, generation=2), old.uid)
    await lab.engine.settle(assign_again(run, generation=2), old.uid)
    await lab.engine.remove(old)
    await lab.pass_time()
    assert (await lab.engine.observe(old)).seen is Seen.ABSENT
    seen = await lab.engine.observe(new)
    assert (seen.uid, seen.seen, seen.generation) == (new.uid, Seen.HELD, 1)


async def test_it_runs_once_when_it_is_released_again_and_again(lab: Lab) -> None:
    run = assign(lab)
    anchor = await begin(lab, run)
    await asyncio.gather(*(lab.engine.release(run, anchor.uid) for _ in range(5)))
    await see(lab, anchor, Seen.RUNNING)
    await lab.engine.release(run, anchor.uid)
    await lab.pass_time()
    seen = await lab.engine.observe(anchor)
    assert (seen.uid, seen.seen, seen.generation) == (anchor.uid, Seen.RUNNING, 1)
    assert len(await lab.engine.list_log_sources(anchor)) == 1


async def test_nothing_is_left_when_it_is_removed_at_work(lab: Lab) -> None:
    run = assign(lab)
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    await lab.engine.remove(anchor)
    await lab.engine.remove(anchor)
    await see(lab, anchor, Seen.ABSENT)
    assert await lab.engine.find_anchor(run) is None
    assert await lab.count_objects(run.run_uid) == 0


async def test_it_is_removed_when_another_process_knows_only_what_is_listed(lab: Lab) -> None:
    run = assign(lab)
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    other = await lab.reopen()
    listed = (await other.list_anchors()).observations
    found = next(found for found, _ in listed if found.run_uid == run.run_uid)
    assert found == anchor
    await other.remove(found)
    await see(lab, anchor, Seen.ABSENT)
