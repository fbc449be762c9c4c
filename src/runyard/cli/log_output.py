"""Prints logs, and follows runs to their end. Ctrl-C ends the command, not the run."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import click

from runyard.cli.output import clean, clean_lines, has_colour, print_note
from runyard.cli.state_notes import note_states
from runyard.sdk.errors import RunyardError
from runyard.sdk.log_reader import StreamTitles
from runyard.sdk.sync.run import Run

RUN_FAILED = 3
"""The exit code of a command whose run failed."""
WAIT_TIMEOUT = 4
INTERRUPTED = 130


def follow_to_the_end(run: Run, *, tail: int | None = None) -> None:
    """Print the log as it comes and then the outcome; exits with 3 if the run failed, and with 130 on Ctrl-C."""
    with keep_running(run):
        print_log(run, follow=True, tail=tail)
        run.wait(until="end")
    report_outcome(run)


def print_log(
    run: Run,
    *,
    follow: bool,
    tail: int | None = None,
    since: str | None = None,
    container: str | None = None,
    pod: str | None = None,
) -> None:
    """Print the lines of a log; names of containers and gaps stand on lines of their own.

    A log that is followed and has not begun is explained by the state of its run.
    """
    titles, away = StreamTitles(), _AwayNotes()
    lines = run.iter_log(follow=follow, tail=tail, since=since, container=container, pod=pod, on_away=away.note)
    with note_states(run) if follow else nullcontext() as has_begun:
        for line in lines:
            if has_begun is not None:
                has_begun.set()
            away.is_noted = False
            if (title := titles.make(line)) is not None:
                click.echo(clean(title), err=True)
            click.echo(_make_printable(line.text), err=line.is_gap)
            if follow:
                sys.stdout.flush()


def report_outcome(run: Run) -> None:
    """Print how a run ended; exits with 3 if it failed."""
    click.echo(clean_lines(f"run {run.id}: {run.describe()}"), err=True)
    for name, value in run.results.items():
        click.echo(f"  result {clean(name)}: {clean(str(value))[:500]}", err=True)
    for name, value in run.outputs.items():
        click.echo(f"  output {clean(name)}: {clean(str(value))[:500]}", err=True)
    if run.has_failed:
        raise click.exceptions.Exit(RUN_FAILED)


@contextmanager
def keep_running(run: Run) -> Iterator[None]:
    """On Ctrl-C, say that the run goes on and how to stop it; exits with 130."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(err=True)
        print_note(
            f"run {run.id} goes on; stop it with `runyard stop {run.id}`, follow it with `runyard logs -f {run.id}`"
        )
        raise click.exceptions.Exit(INTERRUPTED) from None


class _AwayNotes:
    """Says once that the server is away, and again only after it was back."""

    def __init__(self) -> None:
        self.is_noted = False

    def note(self, error: RunyardError) -> None:
        """Print a note, unless one was printed."""
        if not self.is_noted:
            print_note(f"the server is away ({error}); trying again")
        self.is_noted = True


def _make_printable(text: str) -> str:
    """The text as it is for a program; on a terminal, control characters are escaped, except tabs and colours."""
    if not sys.stdout.isatty():
        return text
    if has_colour(sys.stdout) and "\x1b[" in text:
        return _keep_colours(text)
    return "\t".join(map(clean, text.split("\t")))


def _keep_colours(text: str) -> str:
    """Escape everything but SGR sequences (`ESC [ … m`), and end with a reset."""
    first, *rest = text.split("\x1b[")
    shown = clean(first)
    for part in rest:
        digits = part[: len(part) - len(part.lstrip("0123456789;"))]
        is_colour = part[len(digits) : len(digits) + 1] == "m"
        shown += f"\x1b[{digits}m{clean(part[len(digits) + 1 :])}" if is_colour else clean(f"\x1b[{part}")
    return f"{shown}\x1b[0m"
