"""`python -m tests.mutants`: which planted mutants do the tests kill?"""

import argparse
import random
import sys
from collections import Counter

from tests.mutants.catalogue import list_tests, load_mutants
from tests.mutants.runner import Verdict, find_failing, run_mutants

GOAL = 0.95


def main() -> int:
    """Run all mutants or a sample; exit 1 if fewer than the goal are killed or a mutant is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", help="run the mutants whose id contains this text")
    parser.add_argument("--sample", type=int, help="run this many, chosen at random")
    parser.add_argument("--seed", type=int, default=None, help="the seed of the sample; printed if it was chosen here")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--no-baseline", action="store_true", help="skip the check that the tests pass without mutants")
    options = parser.parse_args()
    mutants = [mutant for mutant in load_mutants() if not options.only or options.only in mutant.id]
    if not mutants:
        parser.error(f"no mutant has {options.only!r} in its id")
    if options.sample is not None:
        seed = random.randrange(10**6) if options.seed is None else options.seed
        write(f"sample of {options.sample}, --seed {seed}")
        mutants = random.Random(seed).sample(mutants, min(options.sample, len(mutants)))
    if not options.no_baseline:
        failing = find_failing(list_tests(mutants), workers=options.workers, note=write)
        if failing:
            write("\n  ".join(["these tests fail without a mutant:", *failing]))
            return 1
    verdicts: Counter[Verdict] = Counter()
    for outcome in run_mutants(mutants, workers=options.workers):
        verdicts[outcome.verdict] += 1
        write(f"{outcome.verdict:8}  {outcome.mutant.id}")
        if outcome.verdict is Verdict.BROKEN:
            write(outcome.output)
    killed = verdicts[Verdict.KILLED]
    write(f"{killed} of {len(mutants)} killed ({killed / len(mutants):.0%}); the goal is {GOAL:.0%}")
    return 0 if killed >= GOAL * len(mutants) and not verdicts[Verdict.BROKEN] else 1


def write(line: str) -> None:
    """Print a line at once: a run takes minutes."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
