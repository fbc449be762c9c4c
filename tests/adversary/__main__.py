"""`python -m tests.adversary --count N --seed S [--workers W] [--only NUMBER]`."""

import argparse
import sys
import time

from tests.adversary.campaign import Tally, describe_failure, measure, play_all
from tests.adversary.generator import CASES_PER_WORLD, draw_case, draw_world
from tests.adversary.trial import make_stage, play

PROGRESS_SECONDS = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.adversary", description="Hostile users against the admin.")
    parser.add_argument("--count", type=int, default=10_000, help="how many cases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", type=int, default=None, metavar="NUMBER", help="play this one case, and shrink it")
    options = parser.parse_args()
    if options.only is not None:
        return _play_one(options.seed, options.only)
    started_at, told_at = time.monotonic(), time.monotonic()
    tally = Tally()
    told = 0
    for tally in play_all(options.seed, options.count, workers=options.workers):
        for number, complaints in tally.failures[told:]:
            _say(f"broken: case {number}: {'; '.join(complaints)}")
        told = len(tally.failures)
        if time.monotonic() - told_at >= PROGRESS_SECONDS:
            told_at = time.monotonic()
            _say(
                f"{tally.count:>9,} of {options.count:,}  {measure(started_at, tally.count):,.0f} cases/s  "
                f"{tally.accepted_share:.0%} accepted  {len(tally.failures)} broken"
            )
    _report(tally, seconds=time.monotonic() - started_at)
    if tally.failures:
        number, complaints = min(tally.failures)
        _say(f"\nbroken: {len(tally.failures)}, first case {number}: {complaints[0]}")
        _say(describe_failure(options.seed, number))
        return 1
    return 0


def _play_one(seed: int, number: int) -> int:
    world = draw_world(seed, number // CASES_PER_WORLD)
    outcome = play(draw_case(seed, number, world), make_stage(world))
    _say(f"{outcome.verdict}: {', '.join(outcome.codes)}")
    if outcome.complaints:
        _say(describe_failure(seed, number))
    return 1 if outcome.complaints else 0


def _report(tally: Tally, *, seconds: float) -> None:
    _say(f"\n{tally.count:,} cases in {seconds:,.0f} s: {tally.count / max(seconds, 1e-9):,.0f} cases/s")
    words = {
        "accepted": "accepted, rendered, admitted and judged",
        "unreadable": "refused at reading",
        "refused": "refused by profile, policy or project",
        "unrendered": "resolved, and refused at rendering (no image, python without command, build, ExternalName)",
        "broken": "broken",
    }
    for verdict, meaning in words.items():
        share = tally.verdicts[verdict] / max(1, tally.count)
        _say(f"{tally.verdicts[verdict]:>9,}  {share:6.1%}  {meaning}")
    _say("accepted by action: " + ", ".join(f"{action} {count:,}" for action, count in tally.actions.most_common()))
    for code, count in tally.codes.most_common():
        _say(f"{count:>9,}  {code}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
