"""`python -m tests.chaos [--runs N] [--seconds S] [--seed N] …`: one storm; prints what was counted."""

import argparse
import asyncio
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from testbed.errors import TestbedError
from tests.chaos.faults import WEIGHTS
from tests.chaos.lab import open_cluster
from tests.chaos.storm import StormPlan, run_storm


def main() -> int:
    """Return the exit code: 0 if every rule held."""
    options = parse(sys.argv[1:])
    plan = make_plan(options)
    _say(f"to repeat this storm: {plan.command}")
    folder = Path(options.folder or tempfile.mkdtemp(prefix="chaos-"))
    try:
        with open_cluster(kubernetes=options.kubernetes) as cluster:
            report = asyncio.run(run_storm(plan, cluster, folder, say=_say))
    except TestbedError as error:
        _say(f"no storm: {error}")
        return 2
    _say(report.format())
    _say(f"servers' output and databases: {folder}")
    return 0 if report.is_clean else 1


def make_plan(options: argparse.Namespace) -> StormPlan:
    """The storm that the options ask for; a new one if they name no seed."""
    return StormPlan(
        seed=options.seed if options.seed is not None else random.SystemRandom().randrange(10**6),
        runs=options.runs,
        seconds=options.seconds,
        total=options.total,
        pause_seconds=options.pause,
        replicas=options.replicas,
        kinds={kind: weight for kind, weight in WEIGHTS.items() if not options.only or kind in options.only},
        is_quick=options.quick,
        settle_seconds=options.settle,
    )


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="A storm over the Kubernetes engine.")
    parser.add_argument("--runs", type=int, default=300, help="in flight at the same time")
    parser.add_argument("--seconds", type=float, default=1800.0, help="how long faults happen")
    parser.add_argument("--seed", type=int, default=None, help="repeats workloads and faults")
    parser.add_argument("--total", type=int, default=None, help="no more runs than that")
    parser.add_argument("--pause", type=float, default=6.0, help="seconds between two faults, on the average")
    parser.add_argument("--replicas", type=int, choices=(1, 2), default=2, help="2: PostgreSQL; 1: SQLite")
    parser.add_argument("--quick", action="store_true", help="shorter retries than the product's")
    parser.add_argument("--settle", type=float, default=600.0, help="seconds for everything to end afterwards")
    parser.add_argument("--only", action="append", choices=tuple(WEIGHTS), help="only these faults; repeatable")
    parser.add_argument("--kubernetes", default="1.36", help="version")
    parser.add_argument("--folder", default=None, help="where servers keep their data and output")
    return parser.parse_args(words)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
