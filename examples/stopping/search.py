"""Searches without end for the best of random guesses, and keeps its best one when it is stopped.

The handler is `search`. A stop arrives as SIGTERM, which the launcher raises as an exception: `finally` blocks run.
"""

import math
import random
import time


def search(pause_seconds: float = 0.5) -> None:
    """Guess until somebody stops it."""
    chance = random.Random(3)  # noqa: S311 - not for cryptography
    best, guesses = math.inf, 0
    try:
        while True:
            guesses += 1
            best = min(best, abs(math.pi - chance.uniform(0, 10)))
            print(f"guess {guesses}: the best is off by {best:.4f}")
            time.sleep(pause_seconds)
    finally:
        print(f"stopped after {guesses} guesses; the best is off by {best:.4f}")
