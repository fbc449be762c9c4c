"""Plays many cases and counts the outcomes; workers share the worlds."""

import gc
import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from tests.adversary.cases import Case, World
from tests.adversary.generator import CASES_PER_WORLD, draw_case, draw_world
from tests.adversary.shrink import shrink
from tests.adversary.trial import make_stage, play, take_stage

THOROUGH_EVERY = 16
"""One case in this many is played twice, with all inputs compared before and after."""


@dataclass
class Tally:
    """Counts of outcomes, and the failures."""

    verdicts: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    actions: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        self.verdicts += other.verdicts
        self.codes += other.codes
        self.actions += other.actions
        self.failures += other.failures

    @property
    def count(self) -> int:
        return self.verdicts.total()

    @property
    def accepted_share(self) -> float:
        return self.verdicts["accepted"] / max(1, self.count)


def play_world(seed: int, number: int, *, count: int, every: int = THOROUGH_EVERY) -> Tally:
    """Play the cases of one world, up to `count`."""
    tally = Tally()
    world = draw_world(seed, number)
    stage = make_stage(world)
    before = take_stage(stage)
    indexes = range(number * CASES_PER_WORLD, min(count, (number + 1) * CASES_PER_WORLD))
    for index in indexes:
        case = draw_case(seed, index, world)
        outcome = play(case, stage, is_thorough=index % every == 0, keeps_stage=True)
        tally.verdicts[outcome.verdict] += 1
        tally.codes.update(f"{outcome.verdict}: {code}" for code in outcome.codes)
        if outcome.verdict == "accepted":
            tally.actions[case.action] += 1
        if outcome.complaints:
            tally.failures.append((index, outcome.complaints))
    if take_stage(stage) != before:
        tally.failures.append((_find_changing_case(seed, indexes, world), ("inputs: changed",)))
    return tally


def _find_changing_case(seed: int, indexes: range, world: World) -> int:
    """The first case that changes the admin's inputs; the first of all where none does so alone."""
    for index in indexes:
        if any(each == "inputs: changed" for each in play(draw_case(seed, index, world), make_stage(world)).complaints):
            return index
    return indexes[0]


def play_all(seed: int, count: int, *, workers: int = 1, most_failures: int = 20) -> Iterator[Tally]:
    """The tally so far, after each world; ends early where enough failed."""
    worlds = [(seed, number, count) for number in range(-(-count // CASES_PER_WORLD))]
    total = Tally()
    if workers == 1:
        for world in worlds:
            total.add(_play_world(world))
            yield total
            if len(total.failures) >= most_failures:
                return
        return
    with multiprocessing.get_context("spawn").Pool(workers, _start_worker) as pool:
        for tally in pool.imap_unordered(_play_world, worlds, chunksize=4):
            total.add(tally)
            yield total
            if len(total.failures) >= most_failures:
                pool.terminate()
                return


def _start_worker() -> None:
    """Collect garbage rarely: a case makes tens of thousands of objects and no cycles worth a search."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


def _play_world(arguments: tuple[int, int, int]) -> Tally:
    seed, number, count = arguments
    return play_world(seed, number, count=count)


def describe_failure(seed: int, index: int) -> str:
    """The smallest case that fails as this one does, as JSON, with its complaints."""
    drawn = draw_world(seed, index // CASES_PER_WORLD)
    case, world = shrink(draw_case(seed, index, drawn), drawn)
    complaints = play(case, make_stage(world)).complaints
    shown = {"seed": seed, "number": index, "complaints": complaints, "case": _diff(case), "world": _diff(world)}
    return json.dumps(shown, indent=2, default=repr)


def _diff(value: Case | World) -> dict[str, object]:
    """What differs from the defaults."""
    blank = asdict(type(value)())
    return {name: entry for name, entry in asdict(value).items() if entry != blank[name]}


def measure(started_at: float, count: int) -> float:
    """Cases per second."""
    return count / max(1e-9, time.monotonic() - started_at)
