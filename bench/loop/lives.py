"""Whole lives: CPU time, write transactions and statements from after the submit until nothing is left to do."""

from dataclasses import dataclass

from bench.loop.world import LIFE_OVER, PENDING, RUNNING, Usage, World
from runyard.domain.outcomes import Seen


@dataclass(frozen=True, slots=True)
class Life:
    """Per life, without the submit."""

    cpu_ms: float
    commits: float
    statements: float


@dataclass(frozen=True, slots=True)
class Lives:
    """One life after another, and many at once; and what a submit costs beside them."""

    lone: Life
    burst: Life
    submit_cpu_ms: float


async def measure_lives(world: World, *, lone: int, burst: int) -> Lives:
    """Every life is PENDING, RUNNING and COMPLETED; the engine goes on when the state is stored."""
    before = world.read_counter()
    for _ in range(burst):
        await world.submit()
    submit = world.measure_since(before)
    before = world.read_counter()
    await world.start()
    await _live(world, burst)
    at_once = world.measure_since(before)
    await world.wait_until_quiet()
    before = world.read_counter()
    for _ in range(lone):
        run = await world.submit()
        await _live(world, 1, of=f"uid = '{run.uid}' AND ")
    alone = world.measure_since(before)
    await world.stop()
    without = Usage(
        alone.cpu_seconds - submit.cpu_seconds / burst * lone,
        alone.commits - lone,
        alone.statements - submit.statements * lone // burst,
    )
    return Lives(_divide(without, lone), _divide(at_once, burst), submit.cpu_seconds / burst * 1000)


async def _live(world: World, count: int, *, of: str = "") -> None:
    await world.wait(of + PENDING, count)
    active = await world.list_uids(of + PENDING)
    await world.wait_until_released(active)
    world.engine.change(active, Seen.RUNNING)
    await world.wait(of + RUNNING, count)
    world.engine.change(active, Seen.SUCCEEDED)
    await world.wait(of + LIFE_OVER, count)


def _divide(usage: Usage, count: int) -> Life:
    return Life(usage.cpu_seconds / count * 1000, usage.commits / count, usage.statements / count)
