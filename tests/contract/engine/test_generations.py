"""Stop and release, in whatever order they arrive: a call of an older generation does nothing."""

from runyard.domain.outcomes import ENDED, Seen
from tests.contract.engine.lab import (
    Lab,
    assign,
    assign_again,
    assign_service,
    assign_with_secret,
    begin_and_see,
    eventually,
    join,
    make_anchor,
    read_log,
    see,
)
from tests.contract.engine.scripts import WAIT_FOREVER, leave, say, wait_for


async def test_it_ends_when_it_is_stopped_and_again(lab: Lab) -> None:
    run = assign(lab)
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    stop = assign_again(run, generation=2)
    await lab.engine.stop(stop, anchor.uid)
    await lab.engine.stop(stop, anchor.uid)
    await see(lab, anchor, Seen.STOPPED)
    await lab.engine.stop(stop, anchor.uid)
    assert (await lab.engine.observe(anchor)).generation == 2
    assert await lab.engine.find_anchor(run) == anchor.uid


async def test_output_can_be_read_when_the_run_was_stopped(lab: Lab) -> None:
    run = assign(lab, say("first"), say("second"), WAIT_FOREVER)
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    await eventually(lab, lambda: lab.engine.list_log_sources(anchor), lambda found: len(found) == 1)
    await lab.pass_time()
    await lab.engine.stop(assign_again(run, generation=2), anchor.uid)
    await see(lab, anchor, Seen.STOPPED)
    (source,) = await lab.engine.list_log_sources(anchor)
    assert join(await read_log(lab, source)) == b"first\nsecond\n"


async def test_it_stays_stopped_when_an_older_release_comes_late(lab: Lab) -> None:
    run = assign(lab)
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    await lab.engine.stop(assign_again(run, generation=2), anchor.uid)
    await see(lab, anchor, Seen.STOPPED)
    await lab.engine.release(run, anchor.uid)
    await lab.pass_time()
    assert (await lab.engine.observe(anchor)).seen is Seen.STOPPED


async def test_it_never_starts_when_it_is_stopped_while_held(lab: Lab) -> None:
    run = assign(lab)
    anchor = make_anchor(run, await lab.engine.ensure_anchor(run))
    await lab.engine.stop(assign_again(run, generation=2), anchor.uid)
    await lab.engine.release(run, anchor.uid)
    await lab.pass_time()
    assert (await lab.engine.observe(anchor)).seen in ENDED
    assert await lab.engine.list_log_sources(anchor) == []


async def test_it_goes_on_when_a_stopped_service_is_released_and_an_older_stop_comes_late(lab: Lab) -> None:
    run = assign_service(lab)
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    await lab.engine.stop(assign_again(run, generation=2), anchor.uid)
    await see(lab, anchor, Seen.STOPPED)
    await lab.engine.release(assign_again(run, generation=3), anchor.uid)
    await see(lab, anchor, Seen.RUNNING)
    await lab.engine.stop(assign_again(run, generation=2), anchor.uid)
    await lab.pass_time()
    seen = await lab.engine.observe(anchor)
    assert (seen.seen, seen.generation) == (Seen.RUNNING, 3)


async def test_secrets_stay_when_a_settle_of_an_older_generation_comes_late(lab: Lab) -> None:
    run = assign_with_secret(lab, "value-7f", action="serve")
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    await lab.engine.stop(assign_again(run, generation=2), anchor.uid)
    await see(lab, anchor, Seen.STOPPED)
    await lab.engine.release(assign_again(run, generation=3), anchor.uid)
    await see(lab, anchor, Seen.RUNNING)
    assert not await lab.engine.settle(assign_again(run, generation=2), anchor.uid)
    await lab.pass_time()
    assert await lab.count_secret_values("value-7f") > 0
    assert (await lab.engine.observe(anchor)).seen is Seen.RUNNING


async def test_it_is_not_started_again_when_its_work_had_ended(lab: Lab) -> None:
    run = assign(lab, wait_for("end"), leave(0))
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    await lab.send(run, "end")
    await see(lab, anchor, Seen.SUCCEEDED)
    await lab.engine.release(run, anchor.uid)
    await lab.engine.release(assign_again(run, generation=2), anchor.uid)
    await lab.pass_time()
    assert (await lab.engine.observe(anchor)).seen is Seen.SUCCEEDED
    assert len(await lab.engine.list_log_sources(anchor)) == 1


async def test_end_stays_when_a_stop_comes_after_the_work_has_ended(lab: Lab) -> None:
    run = assign(lab, leave(0))
    anchor = await begin_and_see(lab, run, Seen.SUCCEEDED)
    await lab.engine.stop(assign_again(run, generation=2), anchor.uid)
    await lab.pass_time()
    assert (await lab.engine.observe(anchor)).seen is Seen.SUCCEEDED


async def test_generation_is_the_newest_when_calls_were_obeyed(lab: Lab) -> None:
    run = assign(lab)
    anchor = make_anchor(run, await lab.engine.ensure_anchor(run))
    assert (await lab.engine.observe(anchor)).generation == 1
    await lab.engine.release(assign_again(run, generation=3), anchor.uid)
    await eventually(lab, lambda: lab.engine.observe(anchor), lambda seen: seen.generation == 3)
    await lab.engine.stop(assign_again(run, generation=2), anchor.uid)
    await see(lab, anchor, Seen.RUNNING)
    assert (await lab.engine.observe(anchor)).generation == 3
