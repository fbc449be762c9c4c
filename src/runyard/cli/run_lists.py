"""Implements `runyard ps`, `logs` and `stop`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click

from runyard.cli.client_session import open_session
from runyard.cli.humane_times import format_age
from runyard.cli.listings import TABLE, WIDE, Listing
from runyard.cli.log_output import keep_running, print_log, report_outcome
from runyard.cli.output import clean, print_note
from runyard.cli.questions import confirm
from runyard.cli.state_notes import note_states
from runyard.cli.tables import print_listing
from runyard.sdk.sync.project import Project
from runyard.sdk.sync.run import Run

Flags = Mapping[str, Any]
OPTIONAL = ("message", "profile", "user", "reason", "action")
"""Columns that a narrow terminal does not show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which runs are listed."""

    is_all: bool
    state: str | None
    function: str | None
    limit: int

    def find(self, project: Project) -> list[Run]:
        """The newest runs, those that have ended too."""
        return project.list_runs(state=self.state, function=self.function, limit=self.limit)

    def shows(self, run: Run) -> bool:
        """Whether a run is to be shown."""
        return self.is_all or self.state is not None or not run.has_ended


def print_runs(flags: Flags, wanted: Wanted, *, listing: Listing) -> None:
    """List runs, newest first."""
    with open_session(flags) as session:
        found = wanted.find(session.get_project())
    shown = [run for run in found if wanted.shows(run)]
    if not shown and listing.output in (TABLE, WIDE):
        ended = "" if wanted.is_all or not found else f"; `runyard ps --all` shows {len(found)} that have ended"
        print_note(f"project {session.project_name} has no runs{' that have not ended' if found else ''}{ended}")
        return
    data = [run.to_dict() for run in shown]
    print_listing(listing, make_rows(shown), data=data, named="run", optional=OPTIONAL)


def make_rows(runs: Sequence[Run]) -> list[Mapping[str, str]]:
    """The rows of a list of runs."""
    now = datetime.now(UTC)
    return [_to_row(run, now=now) for run in runs]


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
                with note_states(run):
                    run.wait(until="end")
            click.echo(f"{run.id}: {clean(run.describe())}")


def _to_row(run: Run, *, now: datetime) -> Mapping[str, str]:
    return {
        "run": run.id,
        "function": str(run.spec.get("function", "")).rpartition("/")[2].partition(":")[0],
        "action": run.action,
        "state": run.state,
        "reason": run.reason or "",
        "age": format_age(str(run.metadata.get("created", "")), now=now),
        "user": run.user or "",
        "profile": str(run.spec.get("profile") or ""),
        "message": (run.message or "")[:200],
    }
