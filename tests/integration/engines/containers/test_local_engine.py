"""Container functions through the local engine: what its contract does not say."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest

from runyard.domain.outcomes import Seen
from runyard.domain.reasons import Reason
from runyard.engines.local.container_runs import name_container
from runyard.engines.local.containers.runtime import PLACE_LABEL
from tests.contract.engine.lab import assign, begin_and_see, eventually
from tests.contract.engine.local_lab import iter_supervisors
from tests.contract.engine.podman_lab import PodmanLab, open_podman_lab
from tests.contract.engine.scripts import WAIT_FOREVER
from tests.integration.engines.containers.lab import IMAGE, call, list_names


@pytest.fixture
async def lab() -> AsyncIterator[PodmanLab]:
    async with open_podman_lab() as opened:
        yield opened


async def test_reason_has_the_words_of_the_runtime_when_the_image_is_missing(lab: PodmanLab) -> None:
    run = assign(lab, spec={"image": "no-such-image:1", "image_pull_policy": "Never"})
    anchor = await begin_and_see(lab, run, Seen.FAILED)
    seen = await lab.engine.observe(anchor)
    assert seen.reason == Reason.IMAGE_MISSING
    assert seen.message == "the image no-such-image:1 is not on this machine, and its pull policy is Never"


async def test_run_is_lost_and_its_container_gone_when_the_supervisor_was_killed(lab: PodmanLab) -> None:
    run = assign(lab, WAIT_FOREVER)
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    assert _names(lab) == [name_container(run.run_uid, 1)]
    (pid,) = iter_supervisors(lab.place / "runs" / run.run_uid)
    os.kill(pid, signal.SIGKILL)
    seen = await eventually(lab, lambda: lab.engine.observe(anchor), lambda seen: seen.seen is Seen.FAILED)
    assert seen.reason == Reason.SUPERVISOR_LOST
    assert _names(lab) == []


async def test_stray_container_is_removed_when_an_engine_is_opened(lab: PodmanLab) -> None:
    run = assign(lab, WAIT_FOREVER)
    await begin_and_see(lab, run, Seen.RUNNING)
    stray, foreign = name_container("gone", 1), "c-foreign"
    for name, place in ((stray, lab.engine.place.uid), (foreign, "another-place")):
        call(lab.runtime, "create", "--name", name, "--label", f"{PLACE_LABEL}={place}", "--network", "host", IMAGE)
    try:
        await lab.reopen()
        await eventually(lab, lambda: asyncio.to_thread(_names, lab), lambda names: stray not in names)
        assert _names(lab) == sorted([foreign, name_container(run.run_uid, 1)])
    finally:
        call(lab.runtime, "rm", "--force", foreign)


def _names(lab: PodmanLab) -> list[str]:
    return sorted(list_names(lab.runtime))
