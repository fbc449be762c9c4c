"""Finds the two nearest of some random points through a table of all distances.

The handler is `find_nearest`. Twice the points need four times the memory: with 1,350 points it needs some 85 MiB.
"""

import math
import random
from typing import Any


def find_nearest(points: int = 1350) -> dict[str, Any]:
    """The two nearest points and their distance."""
    chance = random.Random(7)  # noqa: S311 - not for cryptography
    places = [(chance.random(), chance.random()) for _ in range(points)]
    print(f"{points} points: a table of {points * points:,} distances")
    table = []
    for at, place in enumerate(places):
        table.append([math.dist(place, other) for other in places])
        if at % (points // 5) == 0:
            print(f"{at / points:.0%} of the table")
    distance, first, second = min((row[to], at, to) for at, row in enumerate(table) for to in range(at))
    return {"first": first, "second": second, "distance": round(distance, 6)}
