"""How long it takes from the submit until the first line of the user's program arrives through `log?follow=true`."""

import time
from collections.abc import Sequence

from bench.local.server import LocalServer


async def measure_first_line(server: LocalServer, function: str, *, runs: int) -> Sequence[float]:
    """Milliseconds, sorted; one run after another."""
    found = []
    for _ in range(runs):
        began = time.perf_counter()
        run_id = await server.submit(function)
        line = await server.read_first_line(run_id)
        found.append((time.perf_counter() - began) * 1000)
        if line != b"line":
            raise RuntimeError(f"the first line of a run is {line!r}")
        await server.wait_settled(run_id)
    return sorted(found)


def find_percentile(values: Sequence[float], part: int) -> float:
    """Of sorted values: the smallest one that so many per cent do not exceed."""
    return values[max(0, -(-len(values) * part // 100) - 1)]
