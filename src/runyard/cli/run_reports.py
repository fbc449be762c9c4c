"""Implements `runyard describe`, `events`, `why`, `wait`, `resume` and `rm`."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from runyard.cli.client_session import open_session
from runyard.cli.humane_times import add_age, format_age
from runyard.cli.listings import Listing
from runyard.cli.log_output import WAIT_TIMEOUT, keep_running, report_outcome
from runyard.cli.output import clean, clean_lines, print_data, print_note
from runyard.cli.plan_output import explanation_to_data, print_values
from runyard.cli.questions import confirm
from runyard.cli.state_notes import note_states
from runyard.cli.tables import print_listing
from runyard.sdk.documents import explain_state
from runyard.sdk.errors import WaitTimeout
from runyard.sdk.sync.run import Run
from runyard.spec.duration import DurationError, parse_duration

Flags = Mapping[str, Any]


def print_description(flags: Flags, given: str | None, *, output: str) -> None:
    """Print a run with the decisions about it."""
    with open_session(flags) as session:
        run = session.get_run(given)
        explanation = run.explain()
    if output != "text":
        print_data({**run.to_dict(), "explanation": explanation_to_data(explanation)}, output=output)
        return
    for name, text in _list_facts(run):
        click.echo(f"{name + ':':10} {clean_lines(text)}")
    for problem in run.warnings:
        click.echo(f"{'warning:':10} {clean(str(problem))}")
    click.echo()
    print_values(explanation)


def _list_facts(run: Run) -> list[tuple[str, str]]:
    facts = [
        ("run", run.id),
        ("project", run.project_name),
        ("function", str(run.spec.get("function", ""))),
        ("user", run.user or ""),
        ("created", add_age(str(run.metadata.get("created", "")))),
        ("state", run.describe()),
        ("service", run.service_url or ""),
        *((f"result {name}", str(value)[:500]) for name, value in run.results.items()),
        *((f"output {name}", str(value)[:500]) for name, value in run.outputs.items()),
    ]
    return [(name, text) for name, text in facts if text]


def print_events(flags: Flags, given: str | None, *, listing: Listing) -> None:
    """List the transitions of a run, oldest first."""
    with open_session(flags) as session:
        found = session.get_run(given).events()
    names = {"time": "time", "state": "status", "by": "actor", "reason": "reason", "message": "message"}
    now = datetime.now(UTC)
    cells = [{column: str(event.get(name) or "") for column, name in names.items()} for event in found]
    rows = [{**row, "age": format_age(row["time"], now=now)} for row in cells]
    print_listing(listing, rows, data=[dict(event) for event in found], optional=("time", "by", "reason"))


def print_reason(flags: Flags, given: str | None) -> None:
    """Say why a run is in its state."""
    with open_session(flags) as session:
        run = session.get_run(given)
        click.echo(clean_lines(explain_state(run, run.events(), show_time=add_age)))


def wait_for_run(flags: Flags, given: str | None, *, until: Any, timeout: str | None) -> None:
    """Wait for a run, with its outcome as the exit code."""
    seconds = None if timeout is None else _read_duration(timeout)
    with open_session(flags) as session:
        run = session.get_run(given)
        try:
            with keep_running(run), note_states(run):
                run.wait(until=until, timeout=seconds)
        except WaitTimeout as error:
            print_note(str(error))
            raise click.exceptions.Exit(WAIT_TIMEOUT) from None
    report_outcome(run)


def resume_runs(flags: Flags, given: Sequence[str], *, reason: str | None) -> None:
    """Resume stopped services; all of them are looked up before the first is resumed."""
    with open_session(flags) as session:
        for run in [session.get_run(each) for each in given]:
            click.echo(f"{run.id}: {clean(run.resume(reason=reason).describe())}")


def delete_runs(flags: Flags, given: Sequence[str], *, yes: bool) -> None:
    """Delete runs, after a question; all of them are looked up before the first is deleted."""
    with open_session(flags) as session:
        runs = [session.get_run(each) for each in given]
        if not yes:
            confirm(f"Delete {', '.join(run.id for run in runs)}?")
        for run in runs:
            run.delete()
            click.echo(f"deleted: {run.id}")


def _read_duration(given: str) -> float:
    try:
        return float(parse_duration(given))
    except DurationError as error:
        meant = f"; did you mean {error.suggestion}?" if error.suggestion else ""
        raise click.UsageError(f"--timeout: {error}{meant}") from None
