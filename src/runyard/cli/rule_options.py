"""Options of commands that rehearse and apply profiles and the policy."""

from collections.abc import Callable
from typing import Any

import click

from runyard.cli.completed_names import complete
from runyard.cli.options import checked
from runyard.cli.questions import add_yes
from runyard.cli.server_options import add_server_options
from runyard.spec.names import check_project_name

Command = Callable[..., Any]
FILE_FORM = ("file", "yaml", "json")
"""Forms of a profile or policy: as it was written, or all that the server says of it."""

_SPAN = (
    click.option("--since", metavar="TIME", help="Only runs since this time: ISO 8601, or how long ago, such as 30d."),
    click.option("--until", metavar="TIME", help="Only runs until this time, in the same forms."),
    click.option(
        "-p",
        "--project",
        metavar="NAME",
        callback=checked(check_project_name),
        shell_complete=complete("project"),
        help="Only runs of this project.",
    ),
    click.option(
        "-n", "--limit", type=click.IntRange(1, 10_000), default=1000, show_default=True, help="Most runs to rehearse."
    ),
)
_APPLY = (
    click.option("--dry-run", "is_dry", is_flag=True, help="Show the changes and the rehearsal, and end."),
    click.option("--strict", "is_strict", is_flag=True, help="Refuse what would otherwise be a warning."),
    click.option(
        "--rehearse/--no-rehearse",
        "is_rehearsed",
        default=True,
        show_default=True,
        help="Resolve runs of the past with the new rules first.",
    ),
)


def add_rehearsal_options(command: Command) -> Command:
    """Add the options that choose the runs, and those that say which server."""
    command = add_server_options(command)
    for option in reversed(_SPAN):
        command = option(command)
    return command


def add_apply_options(command: Command) -> Command:
    """Add what `apply` takes: how it asks, what it rehearses, and which server."""
    command = add_rehearsal_options(command)
    for option in reversed(_APPLY):
        command = option(command)
    return add_yes(command)
