"""A process dies at each single point of a run's life, and the next one brings the run to its end all the same."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from runyard.app.core import Core
from runyard.app.log_store import LogStore
from runyard.app.loops.reconcile import Reconciler
from runyard.app.model import Principal
from runyard.app.ports import Store
from runyard.app.runs.resume import resume_run
from runyard.app.runs.run_deletion import delete_run
from runyard.app.runs.stop import stop_run
from runyard.domain.lifecycle import State
from tests.lifecycle_table import may_follow
from tests.unit.app.crash_points import Crash, Fate, MortalLogs, MortalStore
from tests.unit.app.run_world import ADA, SERVICE, World, issue_token

MOST_POINTS = 40
Act = Callable[[Core, Principal, str, str], Awaitable[Any]]

LIVES: dict[str, list[Act]] = {
    "start": [],
    "stop": [stop_run],
    "resume": [stop_run, resume_run],
    "delete": [delete_run],
}
"""What users do, one act after the other, each done with before the next; the process dies after the last."""


@pytest.mark.parametrize(
    ("life", "rest"),
    [
        ("start", "go on"),
        ("start", "stop"),
        ("start", "delete"),
        ("stop", "go on"),
        ("resume", "go on"),
        ("resume", "stop"),
        ("delete", "go on"),
    ],
)
async def test_run_comes_to_its_end_when_the_process_dies_at_any_point(world: World, life: str, rest: str) -> None:
    for number in range(MOST_POINTS):
        has_died = await _live(world, f"r{number}", life=LIVES[life], dies_at=number)
        await _end(world, f"r{number}", life=life, rest=rest)
        if not has_died:
            break
    else:
        pytest.fail("there are more points than were tried")
    assert number > 4
    assert all(len(uids) == 1 for uids in world.engine.made.values())


async def _live(world: World, run_id: str, *, life: list[Act], dies_at: int) -> bool:
    await world.submit(run_id, effective=SERVICE, kind="container+serve:run")
    for act in life:
        await world.settle(passes=3)
        await act(world.core, ADA, "p", run_id)
    fate = Fate(dies_at)
    core = replace(
        world.core,
        store=cast("Store", MortalStore(world.store, fate)),
        logs=cast("LogStore", MortalLogs(world.logs, fate)),
    )
    world.engine.at = fate.pass_point
    loop = Reconciler(core, world.engine, issue_token=issue_token)
    has_died = False
    try:
        for _ in range(2):
            await loop.reconcile_due()
            world.engine.tick()
            world.make_due()
    except (Crash, BaseExceptionGroup):
        has_died = True
    world.engine.at = lambda _: asyncio.sleep(0)
    return has_died


async def _end(world: World, run_id: str, *, life: str, rest: str) -> None:
    if rest == "stop" and life != "delete":
        await stop_run(world.core, ADA, "p", run_id)
    elif rest == "delete" and await world.find(run_id) is not None:
        await delete_run(world.core, ADA, "p", run_id)
    await world.settle()
    run = await world.find(run_id)
    if "delete" in (life, rest):
        assert run is None
    else:
        assert run is not None
        is_stopped = rest == "stop" or life == "stop"
        assert run.state == (State.STOPPED if is_stopped else State.RUNNING)
        states = [step.state for step in await world.history(run_id)]
        assert all(may_follow(a, b, can_resume=True) for a, b in itertools.pairwise(states))
        await delete_run(world.core, ADA, "p", run_id)
        await world.settle()
    assert world.engine.things == {}
