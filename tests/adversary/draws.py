"""A seeded source of random choices."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


class Draws:
    """Random choices; the same seed gives the same ones."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)
        self.chance_of = self._random.random

    def chance(self, probability: float = 0.5) -> bool:
        return self.chance_of() < probability

    def pick(self, *choices: T) -> T:
        return choices[int(self.chance_of() * len(choices))]

    def pick_of(self, choices: Sequence[T]) -> T:
        return choices[int(self.chance_of() * len(choices))]

    def number(self, least: int, most: int) -> int:
        return least + int(self.chance_of() * (most - least + 1))

    def sample(self, choices: Sequence[T], count: int) -> list[T]:
        return self._random.sample(choices, min(count, len(choices)))

    def some(self, draw: Callable[[], T], *, least: int = 0, most: int = 3) -> list[T]:
        return [draw() for _ in range(self.number(least, most))]

    def pairs(self, table: Mapping[str, Sequence[Any]], *, least: int = 1, most: int = 3) -> dict[str, Any]:
        """Some of the keys, each with one of its values."""
        keys = self.sample(list(table), self.number(least, most))
        return {key: self.pick_of(table[key]) for key in keys}

    def ladder(self, steps: Sequence[T], count: int) -> list[T]:
        """Draw `count` steps in ascending order, with repetition."""
        return [steps[index] for index in sorted(self.number(0, len(steps) - 1) for _ in range(count))]
