"""What is sent was admitted; what is refused is neither sent nor started, and leaves nothing behind."""

from dataclasses import replace

import pytest

from runyard.app.engine import Assignment, EngineRefusal
from runyard.domain.outcomes import Seen
from runyard.domain.reasons import Reason
from tests.contract.engine.lab import (
    Lab,
    RecordingAdmission,
    assign,
    assign_again,
    assign_with_secret,
    begin_and_see,
    eventually,
    make_anchor,
    see,
    settle,
)


def get_admission(run: Assignment) -> RecordingAdmission:
    assert isinstance(run.admission, RecordingAdmission)
    return run.admission


def refuse(run: Assignment) -> Assignment:
    """The same run, whose objects are not admitted anymore."""
    return replace(run, admission=replace(get_admission(run), is_refusing=True))


async def test_everything_that_was_sent_was_admitted_when_a_job_is_started(lab: Lab) -> None:
    await check_sent(lab, assign_with_secret(lab, "value-12"))


async def test_everything_that_was_sent_was_admitted_when_a_service_is_started(lab: Lab) -> None:
    await check_sent(lab, assign_with_secret(lab, "value-14", action="serve"))


async def check_sent(lab: Lab, run: Assignment) -> None:
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    await lab.engine.stop(assign_again(run, generation=2), anchor.uid)
    await see(lab, anchor, Seen.STOPPED)
    sent = await lab.list_sent(run.run_uid)
    assert sent
    assert set(sent) <= set(get_admission(run).admitted)


async def test_nothing_is_created_when_the_anchor_is_not_admitted(lab: Lab) -> None:
    run = refuse(assign(lab))
    with pytest.raises(EngineRefusal) as refusal:
        await lab.engine.ensure_anchor(run)
    assert refusal.value.code == Reason.ADMISSION_REFUSED
    await lab.pass_time()
    assert await lab.engine.find_anchor(run) is None
    assert await lab.count_objects(run.run_uid) == 0
    assert await lab.list_sent(run.run_uid) == []


async def test_nothing_starts_and_nothing_is_left_when_the_release_is_not_admitted(lab: Lab) -> None:
    run = assign_with_secret(lab, "value-13")
    anchor = make_anchor(run, await lab.engine.ensure_anchor(run))
    sent = list(await lab.list_sent(run.run_uid))
    with pytest.raises(EngineRefusal) as refusal:
        await lab.engine.release(refuse(run), anchor.uid)
    assert refusal.value.code == Reason.ADMISSION_REFUSED
    await lab.pass_time()
    assert (await lab.engine.observe(anchor)).seen is Seen.HELD
    assert await lab.list_sent(run.run_uid) == sent
    assert await lab.count_secret_values("value-13") == 0
    await settle(lab, refuse(run), anchor.uid)
    await see(lab, anchor, Seen.ABSENT)
    await eventually(lab, lambda: lab.count_objects(run.run_uid), lambda count: count == 0)
