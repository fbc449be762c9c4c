"""One run, one anchor: made once, held until it is released, touched only by its UID."""

import asyncio

import pytest

from runyard.domain.effective_spec import EffectiveSpec
from runyard.domain.outcomes import ENDED, Seen
from tests.contract.engine.conftest import Lab, anchor, assign

SERVICE = EffectiveSpec(kind="container", action="serve", image="nginx")


async def test_anchor_is_the_same_when_it_is_ensured_again(lab: Lab) -> None:
    first = await lab.engine.ensure_anchor(assign())
    assert await lab.engine.ensure_anchor(assign(generation=3)) == first
    assert await lab.engine.find_anchor(assign()) == first


async def test_there_is_one_anchor_when_many_ensure_it_at_once(lab: Lab) -> None:
    found = await asyncio.gather(*(lab.engine.ensure_anchor(assign()) for _ in range(20)))
    assert len(set(found)) == 1


async def test_runs_have_anchors_of_their_own_when_their_ids_differ(lab: Lab) -> None:
    assert await lab.engine.ensure_anchor(assign("r1")) != await lab.engine.ensure_anchor(assign("r2"))


async def test_no_anchor_is_found_when_none_was_made(lab: Lab) -> None:
    assert await lab.engine.find_anchor(assign()) is None


async def test_nothing_starts_when_the_anchor_was_not_released(lab: Lab) -> None:
    uid = await lab.engine.ensure_anchor(assign())
    await lab.settle()
    assert (await lab.engine.observe(anchor(uid))).seen is Seen.HELD


async def test_it_runs_when_it_was_released_and_again(lab: Lab) -> None:
    uid = await lab.engine.ensure_anchor(assign())
    await lab.engine.release(assign(), uid)
    await lab.engine.release(assign(), uid)
    await lab.settle()
    await lab.engine.release(assign(), uid)
    seen = await lab.engine.observe(anchor(uid))
    assert (seen.uid, seen.seen, seen.generation) == (uid, Seen.RUNNING, 1)


async def test_it_is_absent_when_somebody_deleted_it_and_no_act_makes_it_again(lab: Lab) -> None:
    uid = await lab.engine.ensure_anchor(assign())
    await lab.lose("r1")
    await lab.engine.release(assign(), uid)
    await lab.engine.stop(assign(generation=2), uid)
    await lab.engine.remove(anchor(uid))
    assert (await lab.engine.observe(anchor(uid))).seen is Seen.ABSENT
    assert await lab.engine.find_anchor(assign()) is None


@pytest.mark.parametrize("project", ["p", "q"])
async def test_runs_have_an_anchor_each_when_they_have_the_same_id(lab: Lab, project: str) -> None:
    other = assign(run_uid="second", project=project)
    first = await lab.engine.ensure_anchor(assign())
    assert await lab.engine.find_anchor(other) is None
    second = await lab.engine.ensure_anchor(other)
    assert second != first
    assert (await lab.engine.find_anchor(assign()), await lab.engine.find_anchor(other)) == (first, second)
    await lab.engine.release(other, second)
    await lab.settle()
    assert (await lab.engine.observe(anchor(first))).seen is Seen.HELD
    assert (await lab.engine.observe(anchor(second, other))).seen is Seen.RUNNING


async def test_version_grows_when_something_happens(lab: Lab) -> None:
    uid = await lab.engine.ensure_anchor(assign())
    versions = [(await lab.engine.observe(anchor(uid))).version]
    await lab.engine.release(assign(), uid)
    versions.append((await lab.engine.observe(anchor(uid))).version)
    await lab.settle()
    versions.append((await lab.engine.observe(anchor(uid))).version)
    await lab.engine.stop(assign(generation=2), uid)
    await lab.settle()
    versions.append((await lab.engine.observe(anchor(uid))).version)
    assert versions == sorted(set(versions))


async def test_it_ends_when_it_is_stopped(lab: Lab) -> None:
    uid = await lab.engine.ensure_anchor(assign())
    await lab.engine.release(assign(), uid)
    await lab.settle()
    await lab.engine.stop(assign(generation=2), uid)
    await lab.engine.stop(assign(generation=2), uid)
    await lab.settle()
    assert (await lab.engine.observe(anchor(uid))).seen in {Seen.STOPPED, Seen.ABSENT}


async def test_it_stays_stopped_when_an_older_release_comes_late(lab: Lab) -> None:
    uid = await lab.engine.ensure_anchor(assign())
    await lab.engine.stop(assign(generation=2), uid)
    await lab.engine.release(assign(generation=1), uid)
    await lab.settle()
    assert (await lab.engine.observe(anchor(uid))).seen in ENDED


async def test_it_goes_on_when_a_stopped_service_is_released_and_an_older_stop_comes_late(lab: Lab) -> None:
    uid = await lab.engine.ensure_anchor(assign(effective=SERVICE))
    await lab.engine.release(assign(effective=SERVICE), uid)
    await lab.settle()
    await lab.engine.stop(assign(effective=SERVICE, generation=2), uid)
    await lab.settle()
    await lab.engine.release(assign(effective=SERVICE, generation=3), uid)
    await lab.engine.stop(assign(effective=SERVICE, generation=2), uid)
    await lab.settle()
    seen = await lab.engine.observe(anchor(uid))
    assert (seen.seen, seen.generation) == (Seen.RUNNING, 3)


async def test_it_is_not_started_again_when_its_work_had_ended(lab: Lab) -> None:
    uid = await lab.engine.ensure_anchor(assign())
    await lab.engine.release(assign(), uid)
    await lab.settle()
    await lab.finish("r1", is_success=True)
    await lab.engine.release(assign(), uid)
    await lab.settle()
    assert (await lab.engine.observe(anchor(uid))).seen is Seen.SUCCEEDED


async def test_failure_is_seen_when_the_work_fails(lab: Lab) -> None:
    uid = await lab.engine.ensure_anchor(assign())
    await lab.engine.release(assign(), uid)
    await lab.settle()
    await lab.finish("r1", is_success=False)
    assert (await lab.engine.observe(anchor(uid))).seen is Seen.FAILED


async def test_nothing_is_left_when_it_is_removed_at_work(lab: Lab) -> None:
    uid = await lab.engine.ensure_anchor(assign())
    await lab.engine.release(assign(), uid)
    await lab.settle()
    await lab.engine.remove(anchor(uid))
    await lab.engine.remove(anchor(uid))
    await lab.settle()
    assert (await lab.engine.observe(anchor(uid))).seen is Seen.ABSENT
    assert await lab.engine.find_anchor(assign()) is None


async def test_run_is_named_when_something_changes(lab: Lab) -> None:
    changes = lab.engine.changes()
    uid = await lab.engine.ensure_anchor(assign())
    await lab.engine.release(assign(), uid)
    async with asyncio.timeout(30):
        assert {seen.run_uid for seen in await anext(changes)} == {assign().run_uid}
