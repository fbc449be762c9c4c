"""`runyard describe`, `events`, `why`, `wait`, `resume` and `rm`."""

from typing import Any

import click

from runyard.cli.completed_names import complete
from runyard.cli.help_texts import format_epilog
from runyard.cli.lazy_commands import load
from runyard.cli.listings import UNNAMED_FORM, add_listing
from runyard.cli.server_options import add_output, add_project_options

DESCRIBE_EXAMPLES = format_epilog("runyard describe", "runyard describe train-5f3a90c2d1 -o yaml")
EVENTS_EXAMPLES = format_epilog("runyard events train-5f3a90c2d1", "runyard events -o json")
WHY_EXAMPLES = format_epilog("runyard why", "runyard why train-5f3a90c2d1")
WAIT_EXAMPLES = """\b
Examples:
  runyard wait train-5f3a90c2d1
  runyard wait predict-77 --until running --timeout 5m

\b
Exit codes:
  0 the run completed, or is running (--until running)    1 refused    2 usage error    3 the run failed or was stopped
  4 the time is over; the run goes on    130 interrupted; the run goes on
"""
RESUME_EXAMPLES = format_epilog("runyard resume predict-77")
RM_EXAMPLES = format_epilog(
    "runyard rm train-0b7d44e19a --yes",
    "runyard ps --all --state ERROR -o name | xargs -r runyard rm --yes",
)
_RUN = click.argument("run", required=False, shell_complete=complete("run"))
_RUNS = click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=complete("run"))
_YES = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")


@click.command(epilog=DESCRIBE_EXAMPLES)
@_RUN
@add_output("text", "json", "yaml")
@add_project_options
def describe(run: str | None, output: str, **flags: Any) -> None:
    """Show RUN, or the newest run: its state and why, results, warnings, and every value with its owner."""
    load("runyard.cli.run_reports:print_description")(flags, run, output=output)


@click.command(epilog=EVENTS_EXAMPLES)
@_RUN
@add_listing("time", "age", "state", "by", "reason", "message", forms=UNNAMED_FORM)
@add_project_options
def events(run: str | None, listing: Any, **flags: Any) -> None:
    """List the transitions of RUN, or of the newest run: when, which state, who, and why."""
    load("runyard.cli.run_reports:print_events")(flags, run, listing=listing)


@click.command(epilog=WHY_EXAMPLES)
@_RUN
@add_project_options
def why(run: str | None, **flags: Any) -> None:
    """Say why RUN, or the newest run, is in its state."""
    load("runyard.cli.run_reports:print_reason")(flags, run)


@click.command(epilog=WAIT_EXAMPLES)
@_RUN
@click.option("--until", type=click.Choice(["end", "running"]), help="[default: end; of a service, running]")
@click.option("--timeout", metavar="DURATION", help="How long to wait, such as 90s or 5m.  [default: no limit]")
@add_project_options
def wait(run: str | None, until: str | None, timeout: str | None, **flags: Any) -> None:
    """Wait until RUN, or the newest run, has ended; until a service is running."""
    load("runyard.cli.run_reports:wait_for_run")(flags, run, until=until, timeout=timeout)


@click.command(epilog=RESUME_EXAMPLES)
@_RUNS
@click.option("--reason", metavar="TEXT", help="Why, in your own words; recorded with the run.")
@add_project_options
def resume(runs: tuple[str, ...], reason: str | None, **flags: Any) -> None:
    """Resume stopped services."""
    load("runyard.cli.run_reports:resume_runs")(flags, runs, reason=reason)


@click.command(epilog=RM_EXAMPLES)
@_RUNS
@_YES
@add_project_options
def rm(runs: tuple[str, ...], yes: bool, **flags: Any) -> None:  # noqa: FBT001
    """Delete runs with their logs and everything they created; those that have not ended are stopped."""
    load("runyard.cli.run_reports:delete_runs")(flags, runs, yes=yes)
