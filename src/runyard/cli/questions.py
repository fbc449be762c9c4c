"""Questions on the terminal, and `--no-input`, which forbids them: before the command, or after one that asks."""

from collections.abc import Callable
from typing import Any

import click

from runyard.cli.lazy_commands import load

Command = Callable[..., Any]
_NO_INPUT = "runyard.no_input"


def add_no_input(command: Command) -> Command:
    """Add `--no-input` to a command."""
    help_text = "Ask nothing: what would be asked is an error, or has its default."
    option = click.option(
        "--no-input", is_flag=True, expose_value=False, is_eager=True, callback=_store, help=help_text
    )
    return option(command)


def _store(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's signature
    if value:
        ctx.meta[_NO_INPUT] = True


def is_input_allowed() -> bool:
    """Whether `--no-input` is absent."""
    ctx = click.get_current_context(silent=True)
    return ctx is None or not ctx.meta.get(_NO_INPUT, False)


def can_ask() -> bool:
    """Whether a person can be asked: standard input is a terminal, and `--no-input` is absent."""
    return is_input_allowed() and bool(load("runyard.cli.files:get_stdin")().isatty())


def confirm(question: str, *, is_yes_default: bool = False) -> None:
    """Ask a question whose flag is --yes. Raises `Abort` if the answer is no, and `UsageError` if there is none."""
    stdin = load("runyard.cli.files:get_stdin")()
    if not is_input_allowed():
        raise click.UsageError("--no-input leaves the question unanswered: use --yes")
    try:
        is_confirmed = click.confirm(question, default=is_yes_default, err=True)
    except click.Abort:  # Ctrl-C, or the end of standard input
        if stdin.isatty():
            raise
        raise click.UsageError("no answer on standard input: use --yes") from None
    if not is_confirmed:
        raise click.Abort
