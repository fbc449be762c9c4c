"""`python -m tests.attack [--seed S] [--count N] [--only TEXT]`: prints the worst waits by route and shape."""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from tests.attack.bodies import Attack
from tests.attack.campaign import Outcome, format_table, iter_all, iter_known, start_campaign
from tests.attack.stored_data import iter_reads, store_more

PROGRESS_SECONDS = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description="Large bodies to every route.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=5000, help="how many attacks, drawn from all; 0: all of them")
    parser.add_argument("--only", default="", help="only attacks whose name contains this text")
    options = parser.parse_args()
    attacks = chain(iter_known(), iter_all(options.seed, count=options.count or None), iter_reads())
    wanted = (attack for attack in attacks if options.only in attack.name)
    with tempfile.TemporaryDirectory(prefix="attack-") as folder:
        outcomes = _play(wanted, Path(folder))
    _say(format_table(outcomes))
    broken = [outcome for outcome in outcomes if outcome.is_broken]
    _say(f"\n{len(outcomes):,} attacks, seed {options.seed}: {len(broken)} held the loop for more than 50 ms or failed")
    for outcome in broken[:20]:
        _say(str(outcome))
    return 1 if broken else 0


def _play(attacks: Iterator[Attack], folder: Path) -> list[Outcome]:
    outcomes: list[Outcome] = []
    with start_campaign(folder) as campaign:
        store_more(campaign.send)
        quiet = campaign.measure_quiet()
        _say(f"quiet: held {quiet[0] * 1000:.0f} ms, /healthz waited {quiet[1] * 1000:.0f} ms")
        told_at = time.monotonic()
        for attack in attacks:
            outcomes.append(campaign.play(attack))
            if time.monotonic() - told_at > PROGRESS_SECONDS:
                told_at = time.monotonic()
                worst = max(outcomes, key=lambda outcome: outcome.held)
                _say(f"{len(outcomes):>7,}  worst so far {worst.held * 1000:.0f} ms: {worst.attack.name}")
    return outcomes


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
