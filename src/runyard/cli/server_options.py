"""Options of commands that talk to a server: which server, which project, and the form of the output."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from runyard.cli.completed_names import complete
from runyard.cli.options import checked
from runyard.spec.names import check_project_name

Command = Callable[..., Any]
OUTPUTS = ("table", "wide", "json", "yaml", "name")

_CONTEXT = click.option(
    "--context",
    metavar="NAME",
    shell_complete=complete("context"),
    help="Context to use.  [default: RUNYARD_CONTEXT, or the current]",
)
_ENDPOINT = click.option("--endpoint", metavar="URL", help="Address of the server. Overrides the context.")
_OFFLINE = click.option("--offline", is_flag=True, help="Answer without a server, by the given files alone.")
_PROJECT = click.option(
    "-p",
    "--project",
    metavar="NAME",
    callback=checked(check_project_name),
    shell_complete=complete("project"),
    help="Project.  [default: RUNYARD_PROJECT, the context's, or default]",
)


def add_server_options(command: Command) -> Command:
    """Add `--context` and `--endpoint`."""
    return _CONTEXT(_ENDPOINT(command))


def add_answer_options(command: Command) -> Command:
    """Add `--offline`, `--context` and `--endpoint`."""
    return _OFFLINE(add_server_options(command))


def split_flags(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of `add_answer_options`, and the others."""
    names = ("offline", "context", "endpoint")
    flags = {name: given[name] for name in names}
    return flags, {name: value for name, value in given.items() if name not in names}


def add_project_options(command: Command) -> Command:
    """Add `--project`, `--context` and `--endpoint`."""
    return _PROJECT(add_server_options(command))


def add_output(*outputs: str) -> Callable[[Command], Command]:
    """Add `-o`, with the first form as the default."""
    return click.option(
        "-o", "--output", type=click.Choice(outputs or OUTPUTS), default=(outputs or OUTPUTS)[0], show_default=True
    )
