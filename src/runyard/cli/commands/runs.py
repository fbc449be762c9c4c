"""`runyard ps`, `logs` and `stop`."""

from typing import Any

import click

from runyard.cli.completed_names import complete
from runyard.cli.lazy_commands import load
from runyard.cli.listings import add_listing
from runyard.cli.server_options import add_project_options

STATES = ("CREATED", "BUILT", "READY", "PENDING", "RUNNING", "COMPLETED", "ERROR", "STOP", "STOPPED", "DELETING")
PS_EXAMPLES = """\b
Examples:
  runyard ps
  runyard ps --all --state ERROR
  runyard ps -w
  runyard ps --all --columns run,state,message
  runyard ps -o name | xargs -r -n 1 runyard stop --yes
  runyard ps -o json | jq -r '.[].status.reason'

\b
Exit codes:
  0 printed    1 refused, or no answer    2 usage error    130 with -w: ended by Ctrl-C
"""
LOGS_EXAMPLES = """\b
Examples:
  runyard logs
  runyard logs -f train-5f3a90c2d1
  runyard logs train-5f --tail 20 --container main

\b
Exit codes:
  0 printed; with -f, the run completed    1 refused    2 usage error    3 with -f: the run failed or was stopped
  130 interrupted; the run goes on
"""
STOP_EXAMPLES = """\b
Examples:
  runyard stop train-5f3a90c2d1
  runyard stop train-5f3a90c2d1 --reason 'wrong data' --yes

\b
Exit codes:
  0 stopped, or ended before    1 refused    2 usage error    130 interrupted; the runs may go on
"""
_RUN = click.argument("run", required=False, shell_complete=complete("run"))
_RUN_OR_MORE = click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=complete("run"))


@click.command(epilog=PS_EXAMPLES)
@click.option("-a", "--all", "is_all", is_flag=True, help="Include runs that have ended.")
@click.option("--state", type=click.Choice(STATES, case_sensitive=False), help="Only runs in this state.")
@click.option("--function", metavar="NAME", shell_complete=complete("function"), help="Only runs of this function.")
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=25, show_default=True, help="Most runs to show.")
@click.option("-w", "--watch", is_flag=True, help="Go on until Ctrl-C: redraw on a terminal, else print what changes.")
@add_listing("run", "function", "action", "state", "reason", "age", more=("user", "profile", "message"))
@add_project_options
def ps(watch: bool, listing: Any, **given: Any) -> None:  # noqa: FBT001
    """List runs, newest first: by default those that have not ended."""
    flags = {name: given.pop(name) for name in ("project", "context", "endpoint")}
    wanted = load("runyard.cli.run_lists:Wanted")(**given)
    show = load("runyard.cli.watched_runs:watch_runs" if watch else "runyard.cli.run_lists:print_runs")
    show(flags, wanted, listing=listing)


@click.command(epilog=LOGS_EXAMPLES)
@_RUN
@click.option("-f", "--follow", is_flag=True, help="Follow the log until the run has ended.")
@click.option("-n", "--tail", type=click.IntRange(0), metavar="LINES", help="Only this many lines from the end.")
@click.option("--since", metavar="TIME", help="Only lines written at or after this time (ISO 8601).")
@click.option("--container", metavar="NAME", help="Only this container.")
@click.option("--pod", metavar="NAME", help="Only this pod.")
@add_project_options
def logs(run: str | None, follow: bool, **given: Any) -> None:  # noqa: FBT001
    """Print the log of RUN: its id, or the beginning of it. Without RUN, of the newest run.

    A followed log goes on when the server is restarted: no line is lost or printed twice.
    """
    flags = {name: given.pop(name) for name in ("project", "context", "endpoint")}
    load("runyard.cli.run_lists:print_logs")(flags, run, follow=follow, **given)


@click.command(epilog=STOP_EXAMPLES)
@_RUN_OR_MORE
@click.option("--reason", metavar="TEXT", help="Why, in your own words; recorded with the run.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--wait/--no-wait", "is_waiting", default=True, show_default=True, help="Wait until it has stopped.")
@add_project_options
def stop(runs: tuple[str, ...], reason: str | None, yes: bool, is_waiting: bool, **flags: Any) -> None:  # noqa: FBT001
    """Stop runs: they get SIGTERM, and SIGKILL after their grace period. It is no error if they have ended."""
    load("runyard.cli.run_lists:stop_runs")(flags, runs, reason=reason, yes=yes, is_waiting=is_waiting)
