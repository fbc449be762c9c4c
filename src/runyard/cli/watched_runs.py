"""Implements `runyard ps -w`: a table that is redrawn in place, or the rows that changed where there is no terminal."""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from runyard.cli.client_session import Session, open_session
from runyard.cli.listings import TABLE, WIDE, Listing
from runyard.cli.log_output import INTERRUPTED
from runyard.cli.output import clean, has_colour, print_note
from runyard.cli.run_lists import OPTIONAL, Wanted, make_rows
from runyard.cli.tables import GrowingTable, format_table
from runyard.cli.terminals import Screen
from runyard.sdk.errors import ServerFailed, ServerUnreachable, TooManyRequests
from runyard.sdk.sync.run import Run

Flags = Mapping[str, Any]
LOOK_SECONDS = 2.0
"""How often the server is asked."""
_AWAY = (ServerUnreachable, ServerFailed, TooManyRequests)


def watch_runs(flags: Flags, wanted: Wanted, *, listing: Listing) -> None:
    """Show runs until Ctrl-C. A run that was shown stays when it ends."""
    if listing.output not in (TABLE, WIDE):
        raise click.UsageError(f"-w shows a table, which -o {listing.output} is not; allowed: {TABLE}, {WIDE}")
    with open_session(flags) as session:
        watched = _WatchedRuns(session, wanted)
        watched.read()
        try:
            if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
                _show_on_screen(watched, listing=listing)
            _print_changes(watched, listing=listing)
        except KeyboardInterrupt:  # the way to end it, which needs no words
            raise click.exceptions.Exit(INTERRUPTED) from None


class _WatchedRuns:
    """The runs as they were seen last."""

    def __init__(self, session: Session, wanted: Wanted) -> None:
        self.runs: list[Run] = []
        self.away: str | None = None
        """Why the server did not answer the last time."""
        self.session = session
        self._project = session.get_project()
        self._wanted = wanted
        self._seen: set[str] = set()

    def read(self) -> None:
        """Ask the server; if it is away, the runs stay as they were."""
        try:
            found = self._wanted.find(self._project)
        except _AWAY as error:
            self.away = clean(str(error))
            return
        self.away = None
        self.runs = [run for run in found if self._wanted.shows(run) or run.id in self._seen]
        self._seen = {run.id for run in self.runs}


def _show_on_screen(watched: _WatchedRuns, *, listing: Listing) -> None:
    """Draw the table again and again. What was drawn last stays on the terminal after Ctrl-C."""
    lines: list[str] = []
    terminal = sys.stdout.fileno()
    try:
        with Screen(terminal).open() as screen:
            asked_at = time.monotonic()
            while True:
                lines = _draw(watched, screen.size, listing=listing)
                screen.draw(lines)
                screen.wait(max(0.0, asked_at + LOOK_SECONDS - time.monotonic()))
                if time.monotonic() >= asked_at + LOOK_SECONDS:
                    watched.read()
                    asked_at = time.monotonic()
    finally:
        for line in lines:
            click.echo(line, color=True)


def _draw(watched: _WatchedRuns, size: os.terminal_size, *, listing: Listing) -> list[str]:
    """The lines that fit: a title, the table, and what is left out."""
    title = f"project {watched.session.project_name}, {datetime.now().astimezone():%H:%M:%S}; Ctrl-C ends it"
    if watched.away is not None:
        title = f"the server is away, trying again: {watched.away}"  # a narrow terminal cuts the reason
    rows = _make_cells(watched.runs, listing)
    if rows:
        optional = () if listing.is_chosen else OPTIONAL
        colour = has_colour(sys.stdout)
        table = format_table(listing.columns, rows, optional=optional, width=size.columns, colour=colour)
    else:
        table = ["no runs that have not ended"]
    room = max(1, size.lines - 1)
    if len(table) > room:
        table = [*table[: room - 1], f"… {len(table) - room + 1} more lines"[: size.columns]]
    return [title[: size.columns], *table]


def _print_changes(watched: _WatchedRuns, *, listing: Listing) -> None:
    """Print the rows, and then those that changed; the age of a run is no change."""
    table, before, was_away = GrowingTable(listing.columns), dict[str, tuple[str, ...]](), False
    facts = [index for index, column in enumerate(listing.columns) if column != "age"]
    while True:
        rows = dict(zip((run.id for run in watched.runs), _make_cells(watched.runs, listing), strict=True))
        seen = {run_id: tuple(row[index] for index in facts) for run_id, row in rows.items()}
        for line in table.format_rows([row for run_id, row in rows.items() if before.get(run_id) != seen[run_id]]):
            click.echo(line)
        sys.stdout.flush()
        if watched.away is not None and not was_away:
            print_note(f"the server is away ({watched.away}); trying again")
        before, was_away = seen, watched.away is not None
        time.sleep(LOOK_SECONDS)
        watched.read()


def _make_cells(runs: Sequence[Run], listing: Listing) -> list[list[str]]:
    return [[clean(row[column]) for column in listing.columns] for row in make_rows(runs)]
