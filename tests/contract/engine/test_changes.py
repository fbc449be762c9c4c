"""Changes: each one is reported, absence too, to every subscriber; and what was before is listed."""

import asyncio
from functools import partial

from runyard.app.engine import EngineUnavailable
from runyard.domain.outcomes import Seen
from tests.contract.engine.lab import (
    Lab,
    assign,
    assign_again,
    assign_service,
    begin,
    begin_and_see,
    eventually,
    make_anchor,
    needs,
    recording,
    see,
)
from tests.contract.engine.scripts import leave, wait_for


async def test_every_change_is_reported_when_it_comes_after_the_call(lab: Lab) -> None:
    run = assign(lab, wait_for("end"), leave(3))
    async with recording(lab.engine.changes()) as changes:
        anchor = make_anchor(run, await lab.engine.ensure_anchor(run))
        await eventually(lab, lambda: changes.list_seen(run), lambda seen: Seen.HELD in seen)
        await lab.engine.release(run, anchor.uid)
        await eventually(lab, lambda: changes.list_seen(run), lambda seen: Seen.RUNNING in seen)
        await lab.send(run, "end")
        await eventually(lab, lambda: changes.list_seen(run), lambda seen: Seen.FAILED in seen)
        await lab.engine.remove(anchor)
        await eventually(lab, lambda: changes.list_seen(run), lambda seen: Seen.ABSENT in seen)
        own = [seen for seen in changes.observations if seen.run_uid == run.run_uid]
    assert {seen.uid for seen in own} == {anchor.uid}
    order = [seen.seen for seen in own]
    assert Seen.HELD not in order[order.index(Seen.RUNNING) :]
    failed = next(seen for seen in own if seen.seen is Seen.FAILED)
    assert [end.exit_code for end in failed.ends] == [3]
    versions = [(seen.epoch, seen.version) for seen in own if seen.seen is not Seen.ABSENT]
    assert versions == sorted(versions)


async def test_ends_are_kept_when_an_ended_run_is_gone(lab: Lab) -> None:
    run = assign(lab, leave(3))
    async with recording(lab.engine.changes()) as changes:
        await begin_and_see(lab, run, Seen.FAILED)
        await eventually(lab, lambda: changes.list_seen(run), lambda seen: Seen.FAILED in seen)
        await lab.lose(run)
        await eventually(lab, lambda: changes.list_seen(run), lambda seen: Seen.ABSENT in seen)
        own = [seen for seen in changes.observations if seen.run_uid == run.run_uid]
    absent = next(seen for seen in own if seen.seen is Seen.ABSENT)
    assert [end.exit_code for end in absent.ends] == [3]


async def test_absence_is_reported_when_somebody_deletes_the_anchor(lab: Lab) -> None:
    run = assign(lab)
    async with recording(lab.engine.changes()) as changes:
        await begin_and_see(lab, run, Seen.RUNNING)
        await lab.lose(run)
        seen = await eventually(lab, lambda: changes.list_seen(run), lambda seen: Seen.ABSENT in seen)
    assert seen[-1] is Seen.ABSENT


async def test_changes_are_kept_when_nobody_reads_them_yet(lab: Lab) -> None:
    run = assign(lab)
    unread = lab.engine.changes()
    await begin_and_see(lab, run, Seen.RUNNING)
    async with recording(unread) as changes:
        await eventually(lab, lambda: changes.list_seen(run), lambda seen: Seen.RUNNING in seen)


async def test_batch_has_the_newest_of_each_run_when_there_were_many_changes(lab: Lab) -> None:
    run, other = assign_service(lab, leave(1)), assign(lab, run_id="r2")
    unread = lab.engine.changes()
    anchor = await begin(lab, run)
    await begin_and_see(lab, other, Seen.RUNNING)
    await eventually(lab, lambda: lab.engine.observe(anchor), lambda seen: len(seen.ends) >= 2)
    await lab.engine.stop(assign_again(run, generation=2), anchor.uid)
    await see(lab, anchor, Seen.STOPPED)
    async with recording(unread) as changes:
        await eventually(lab, lambda: changes.list_seen(run), lambda seen: Seen.STOPPED in seen)
        await eventually(lab, lambda: changes.list_seen(other), lambda seen: Seen.RUNNING in seen)
    for batch in changes.items:
        assert len({seen.run_uid for seen in batch}) == len(batch)


async def test_every_subscriber_is_told_when_there_are_several_and_one_leaves(lab: Lab) -> None:
    run = assign(lab)
    other = await lab.reopen()
    async with recording(lab.engine.changes()) as first, recording(other.changes()) as second:
        async with recording(lab.engine.changes()) as third:
            await begin_and_see(lab, run, Seen.RUNNING)
            for changes in (first, second, third):
                await eventually(lab, partial(changes.list_seen, run), lambda seen: Seen.RUNNING in seen)
        await lab.lose(run)
        for changes in (first, second):
            await eventually(lab, partial(changes.list_seen, run), lambda seen: Seen.ABSENT in seen)


async def test_every_anchor_is_listed_when_runs_are_held_at_work_and_ended(lab: Lab) -> None:
    held, working, ended = (
        assign(lab, run_id="r1"),
        assign(lab, run_id="r2"),
        assign(lab, leave(1), run_id="r3", project=lab.other_project),
    )
    gone = assign(lab, run_id="r4")
    expected = {
        make_anchor(held, await lab.engine.ensure_anchor(held)): Seen.HELD,
        await begin_and_see(lab, working, Seen.RUNNING): Seen.RUNNING,
        await begin_and_see(lab, ended, Seen.FAILED): Seen.FAILED,
    }
    removed = await begin_and_see(lab, gone, Seen.RUNNING)
    await lab.engine.remove(removed)
    await see(lab, removed, Seen.ABSENT)

    async def list_seen() -> dict[object, Seen]:
        listed = await lab.engine.list_anchors()
        assert listed.is_complete
        assert all(anchor.uid == seen.uid and anchor.run_uid == seen.run_uid for anchor, seen in listed.observations)
        own = {run.run_uid for run in (held, working, ended, gone)}
        return {anchor: seen.seen for anchor, seen in listed.observations if anchor.run_uid in own}

    assert await eventually(lab, list_seen, lambda found: found == expected) == expected


@needs("hide")
async def test_list_is_not_complete_when_a_part_cannot_be_read(lab: Lab) -> None:
    await begin_and_see(lab, assign(lab, project=lab.other_project), Seen.RUNNING)
    await lab.hide(lab.other_project)

    async def is_complete() -> bool:
        try:
            return (await lab.engine.list_anchors()).is_complete
        except EngineUnavailable:
            return False

    await eventually(lab, is_complete, lambda complete: not complete)
    await lab.show(lab.other_project)
    await eventually(lab, is_complete, lambda complete: complete)


@needs("strangers")
async def test_anchors_of_others_are_neither_listed_nor_reported_when_they_are_at_the_same_place(lab: Lab) -> None:
    own = assign(lab)
    async with recording(lab.engine.changes()) as changes:
        theirs = await lab.make_foreign_anchor(lab.project)
        await begin_and_see(lab, own, Seen.RUNNING)
        await eventually(lab, lambda: changes.list_seen(own), lambda seen: Seen.RUNNING in seen)
        assert theirs not in {seen.run_uid for seen in changes.observations}
    listed = (await lab.engine.list_anchors()).observations
    assert theirs not in {anchor.run_uid for anchor, _ in listed}
    assert own.run_uid in {anchor.run_uid for anchor, _ in listed}


async def test_runs_go_on_when_the_engine_is_closed(lab: Lab) -> None:
    run = assign(lab)
    other = await lab.reopen()
    uid = await other.ensure_anchor(run)
    await other.release(run, uid)
    anchor = make_anchor(run, uid)
    await see(lab, anchor, Seen.RUNNING)
    await other.close()
    await lab.pass_time()
    assert (await lab.engine.observe(anchor)).seen is Seen.RUNNING
    third = await lab.reopen()
    assert uid in {found.uid for found, _ in (await third.list_anchors()).observations}
    assert (await third.observe(anchor)).seen is Seen.RUNNING


async def test_nothing_fails_when_many_calls_are_made_at_once(lab: Lab) -> None:
    runs = [assign(lab, leave(number % 3), run_id=f"r{number}") for number in range(6)]
    anchors = await asyncio.gather(*(begin(lab, run) for run in runs))
    other = await lab.reopen()
    for engine in (lab.engine, other):
        seen_together = await asyncio.gather(*(engine.observe(anchor) for anchor in anchors))
        assert [seen.run_uid for seen in seen_together] == [run.run_uid for run in runs]
    await asyncio.gather(lab.engine.list_anchors(), *(lab.engine.list_log_sources(anchor) for anchor in anchors))
    codes = []
    for anchor in anchors:
        seen = await see(lab, anchor, Seen.SUCCEEDED, Seen.FAILED)
        codes += [end.exit_code for end in seen.ends]
    assert codes == [number % 3 for number in range(6)]
    stops = [(assign_again(run, generation=2), anchor.uid) for run, anchor in zip(runs, anchors, strict=True)]
    await asyncio.gather(*(lab.engine.stop(*stop) for stop in stops), *(lab.engine.settle(*stop) for stop in stops))
    await asyncio.gather(*(lab.engine.remove(anchor) for anchor in anchors))
    for anchor in anchors:
        await see(lab, anchor, Seen.ABSENT)
