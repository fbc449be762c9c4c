"""Implements `runyard ps`, `logs` and `stop`."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from runyard.cli.client_session import open_session
from runyard.cli.humane_times import format_age
from runyard.cli.log_output import keep_running, print_log, report_outcome
from runyard.cli.output import clean, print_data, print_note
from runyard.cli.questions import confirm
from runyard.cli.tables import print_table
from runyard.sdk.sync.run import Run

Flags = Mapping[str, Any]
HEAD = ("run", "function", "action", "state", "reason", "age")
WIDE = (*HEAD, "user", "profile", "message")


def print_runs(flags: Flags, *, is_all: bool, state: str | None, function: str | None, limit: int, output: str) -> None:
    """List runs, newest first."""
    with open_session(flags) as session:
        project = session.get_project()
        found = project.list_runs(state=state, function=function, limit=limit)
    shown = [run for run in found if is_all or state is not None or not run.has_ended]
    if output in ("json", "yaml"):
        print_data([run.to_dict() for run in shown], output=output)
        return
    if output == "name":
        for run in shown:
            click.echo(run.id)
        return
    now = datetime.now(UTC)
    rows = [_to_row(run, now=now) for run in shown]
    if not rows:
        ended = "" if is_all or not found else f"; `runyard ps --all` shows {len(found)} that have ended"
        print_note(f"project {session.project_name} has no runs{' that have not ended' if found else ''}{ended}")
        return
    head = WIDE if output == "wide" else HEAD
    print_table(head, [row[: len(head)] for row in rows], optional=("message", "profile", "user", "reason", "action"))


def print_logs(flags: Flags, given: str | None, *, follow: bool, **wanted: Any) -> None:
    """Print the log of a run; with `follow`, until it has ended, with its outcome as the exit code."""
    with open_session(flags) as session:
        run = session.get_run(given)
        if not follow:
            print_log(run, follow=False, **wanted)
            return
        with keep_running(run):
            print_log(run, follow=True, **wanted)
            run.wait(until="end")
        report_outcome(run)


def stop_runs(flags: Flags, given: Sequence[str], *, reason: str | None, yes: bool, is_waiting: bool) -> None:
    """Stop runs, after a question; all of them are looked up before the first is stopped."""
    with open_session(flags) as session:
        runs = [session.get_run(each) for each in given]
        waiting = [run for run in runs if not run.has_ended]
        if waiting and not yes:
            confirm(f"Stop {', '.join(run.id for run in waiting)}?", is_yes_default=True)
        for run in runs:
            run.stop(reason=reason)
        for run in runs:
            if is_waiting:
                run.wait(until="end")
            click.echo(f"{run.id}: {clean(run.describe())}")


def _to_row(run: Run, *, now: datetime) -> tuple[str, ...]:
    function = str(run.spec.get("function", "")).rpartition("/")[2].partition(":")[0]
    created = str(run.metadata.get("created", ""))
    cells = (run.id, function, run.action, run.state, run.reason or "", format_age(created, now=now))
    more = (run.user or "", str(run.spec.get("profile") or ""), (run.message or "")[:200])
    return tuple(map(clean, (*cells, *more)))
