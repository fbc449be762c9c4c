"""Prints rehearsals, of this machine and of a server: what other rules would change in runs of the past."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from runyard.cli.output import clean, count_things, format_value
from runyard.cli.server_problems import parse_path
from runyard.cli.tables import print_table

HEAD = ("run", "project", "outcome", "field", "before", "after", "decided by")
DIRECTIONS = ("smaller", "larger", "mixed")
OUTCOMES = ("refused", "accepted", *DIRECTIONS, "changed", "unchanged", "refused_by_both")
_NOT_REHEARSED = {"unreadable": "not readable", "local": "executed by clients"}


def print_rehearsed(runs: Iterable[Mapping[str, Any]], *, is_answer: bool = True) -> None:
    """Print a table with the changes and refusals of runs; nothing if there are none."""
    rows = [row for run in runs for row in _iter_rows(run)]
    if rows:
        print_table(HEAD, rows, optional=("project", "decided by"), is_answer=is_answer)
        click.echo(err=not is_answer)


def summarise(counts: Mapping[str, int]) -> str:
    """`31 refused, 204 smaller, 12 unchanged`, of runs by outcome, the changed ones by direction if they have one."""
    words = {**{outcome: outcome.replace("_", " ") for outcome in OUTCOMES}, **_NOT_REHEARSED}
    return ", ".join(f"{counts[outcome]} {word}" for outcome, word in words.items() if counts.get(outcome)) or "no runs"


def iter_causes(causes: Sequence[Mapping[str, Any]], *, left_out: int = 0) -> Iterator[str]:
    """Yield why both rules refuse runs, one line per cause."""
    if not causes:
        return
    yield "refused by both:"
    for cause in causes:
        where = f"{cause['path']}: " if cause.get("path") else ""
        yield clean(f"    {count_things(int(cause['runs']), 'run')}: {where}{cause['message']}")
    if left_out:
        yield f"    and {count_things(left_out, 'other reason')}"


def _iter_rows(run: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    outcome = str(run.get("direction") or run.get("outcome", ""))
    head = clean(str(run.get("id", ""))), clean(str(run.get("project", ""))), clean(outcome.replace("_", " "))
    refusals, changes = run.get("refusals") or (), run.get("changes") or ()
    for problem in refusals:
        allowed, message = problem.get("allowed"), str(problem.get("message", ""))
        why = f"{message}; allowed: {allowed}" if allowed else message
        yield *head, clean(str(problem.get("path") or "")), "", clean(why), ""
    for change in changes:
        path = str(change.get("path", ""))
        before, after = (_show(path, change.get(name)) for name in ("old", "new"))
        yield *head, clean(path), before, after, clean(str(change.get("by", "")))
    if not refusals and not changes:
        yield *head, "", "", "", ""


def _show(path: str, value: Any) -> str:
    return "-" if value is None else format_value(parse_path(path), value)
