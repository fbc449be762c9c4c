"""After the end: values of secrets go, what never ran goes, and a stopped service can be started again."""

from dataclasses import replace

import pytest

from runyard.app.engine import EngineRefusal
from runyard.domain.outcomes import Seen
from runyard.domain.reasons import Reason
from tests.contract.engine.lab import (
    FixedAccess,
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
    settle,
)
from tests.contract.engine.scripts import WAIT_FOREVER, leave, show_variable


async def test_container_has_the_secret_when_it_was_released(lab: Lab) -> None:
    run = assign_with_secret(lab, "value-33", show_variable("KEY"))
    anchor = await begin_and_see(lab, run, Seen.SUCCEEDED)
    (source,) = await lab.engine.list_log_sources(anchor)
    assert join(await read_log(lab, source)) == b"value-33\n"


async def test_values_of_secrets_are_gone_when_an_ended_run_is_settled(lab: Lab) -> None:
    run = assign_with_secret(lab, "value-44", leave(1))
    anchor = await begin_and_see(lab, run, Seen.FAILED)
    if "stored secrets" in lab.capabilities:
        assert await lab.count_secret_values("value-44") > 0
    await settle(lab, run, anchor.uid)
    assert await lab.count_secret_values("value-44") == 0
    assert await lab.engine.settle(run, anchor.uid)


async def test_end_can_be_seen_when_the_run_is_settled(lab: Lab) -> None:
    run = assign(lab, leave(3))
    anchor = await begin_and_see(lab, run, Seen.FAILED)
    await settle(lab, run, anchor.uid)
    await lab.pass_time()
    seen = await lab.engine.observe(anchor)
    assert (seen.seen, [end.exit_code for end in seen.ends]) == (Seen.FAILED, [3])


async def test_run_goes_on_when_it_is_settled_before_its_end(lab: Lab) -> None:
    run = assign_with_secret(lab, "value-55", WAIT_FOREVER)
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    assert not await lab.engine.settle(run, anchor.uid)
    await lab.pass_time()
    assert (await lab.engine.observe(anchor)).seen is Seen.RUNNING
    assert await lab.count_secret_values("value-55") > 0


async def test_anchor_goes_after_its_ttl_when_the_run_is_settled_and_not_before(lab: Lab) -> None:
    run = assign(lab, leave(0), spec={"ttl_seconds": 1})
    anchor = await begin_and_see(lab, run, Seen.SUCCEEDED)
    await lab.pass_time()
    assert (await lab.engine.observe(anchor)).seen is Seen.SUCCEEDED
    await lab.engine.settle(run, anchor.uid)
    await see(lab, anchor, Seen.ABSENT)
    assert await lab.engine.settle(run, anchor.uid)


async def test_absent_anchor_is_settled_when_somebody_deleted_it(lab: Lab) -> None:
    run = assign_with_secret(lab, "value-66", WAIT_FOREVER)
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    await lab.lose(run)
    await settle(lab, run, anchor.uid)
    assert await lab.count_objects(run.run_uid) == 0
    assert await lab.count_secret_values("value-66") == 0


async def test_stopped_service_starts_again_with_its_secrets_when_it_was_settled(lab: Lab) -> None:
    run = assign_with_secret(lab, "value-77", show_variable("KEY"), WAIT_FOREVER, action="serve")
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    stopped = assign_again(run, generation=2)
    await lab.engine.stop(stopped, anchor.uid)
    await see(lab, anchor, Seen.STOPPED)
    await settle(lab, stopped, anchor.uid)
    assert await lab.count_secret_values("value-77") == 0
    assert (await lab.engine.observe(anchor)).seen is Seen.STOPPED
    resumed = assign_again(run, generation=3)
    await lab.engine.release(resumed, anchor.uid)
    await see(lab, anchor, Seen.RUNNING)
    assert await lab.count_secret_values("value-77") > 0
    sources = await eventually(lab, lambda: lab.engine.list_log_sources(anchor), lambda found: len(found) >= 1)
    await lab.pass_time()
    await lab.engine.stop(assign_again(run, generation=4), anchor.uid)
    await see(lab, anchor, Seen.STOPPED)
    sources = await lab.engine.list_log_sources(anchor)
    assert join(await read_log(lab, sources[-1])) == b"value-77\n"


async def test_nothing_is_left_when_a_run_that_was_never_released_is_settled(lab: Lab) -> None:
    run = assign(lab)
    anchor = make_anchor(run, await lab.engine.ensure_anchor(run))
    stopped = assign_again(run, generation=2)
    await lab.engine.stop(stopped, anchor.uid)
    await settle(lab, stopped, anchor.uid)
    await see(lab, anchor, Seen.ABSENT)
    await eventually(lab, lambda: lab.count_objects(run.run_uid), lambda count: count == 0)


async def test_service_starts_when_it_was_stopped_and_settled_before_it_ran(lab: Lab) -> None:
    run = assign_service(lab)
    anchor = make_anchor(run, await lab.engine.ensure_anchor(run))
    stopped = assign_again(run, generation=2)
    await lab.engine.stop(stopped, anchor.uid)
    await settle(lab, stopped, anchor.uid)
    await lab.pass_time()
    await lab.engine.release(assign_again(run, generation=3), anchor.uid)
    await see(lab, anchor, Seen.RUNNING)


async def test_nothing_is_left_when_a_stopped_service_that_cannot_be_resumed_is_settled(lab: Lab) -> None:
    run = assign_with_secret(lab, "value-88", WAIT_FOREVER, action="serve")
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    failed = replace(assign_again(run, generation=2), can_be_resumed=False)
    await lab.engine.stop(failed, anchor.uid)
    await see(lab, anchor, Seen.STOPPED)
    await settle(lab, failed, anchor.uid)
    await see(lab, anchor, Seen.ABSENT)
    await eventually(lab, lambda: lab.count_objects(run.run_uid), lambda count: count == 0)
    assert await lab.count_secret_values("value-88") == 0
    assert await lab.engine.settle(failed, anchor.uid)


class RefusedAccess(FixedAccess):
    """A secret that the run names has no value."""

    async def read_secrets(self) -> dict[str, str]:
        raise EngineRefusal(Reason.SECRET_MISSING, "secret `KEY` has no value")


async def test_nothing_is_left_when_a_refused_release_is_settled(lab: Lab) -> None:
    run = assign(lab, access=RefusedAccess())
    anchor = make_anchor(run, await lab.engine.ensure_anchor(run))
    with pytest.raises(EngineRefusal) as refusal:
        await lab.engine.release(run, anchor.uid)
    assert refusal.value.code == Reason.SECRET_MISSING
    await lab.pass_time()
    assert await lab.engine.list_log_sources(anchor) == []
    await settle(lab, run, anchor.uid)
    await see(lab, anchor, Seen.ABSENT)
    await eventually(lab, lambda: lab.count_objects(run.run_uid), lambda count: count == 0)
