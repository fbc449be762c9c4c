"""Questions on the terminal, and `--no-input`, which forbids them: before the command, or after one that asks."""

from collections.abc import Callable
from typing import Any

import click

from runyard.cli.lazy_commands import load

Command = Callable[..., Any]
MOST_ANSWER_LENGTH = 4096
_NO_INPUT = "runyard.no_input"


def add_no_input(command: Command) -> Command:
    """Add `--no-input` to a command."""
    help_text = "Ask nothing: what would be asked is an error, or has its default."
    option = click.option(
        "--no-input", is_flag=True, expose_value=False, is_eager=True, callback=_store, help=help_text
    )
    return option(command)


def add_yes(command: Command) -> Command:
    """Add `--yes` and `--no-input` to a command that asks before it acts."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")(add_no_input(command))


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


def ask(question: str, *, default: str | None = None) -> str:
    """Ask for a line, without the spaces around it. Raises `Abort` on Ctrl-C and at the end of standard input."""
    shown = f" [{default}]" if default else ""
    while not (answer := _read_line(f"{question}{shown}: ").strip()) and default is None:
        pass
    return answer or default or ""


def ask_hidden(question: str, *, is_repeated: bool = False) -> str:
    """Ask for a secret, without echo; a second time, to compare, if it `is_repeated`. Raises `Abort` on Ctrl-C."""
    with load("runyard.cli.interrupts:repeat_interrupts")():
        answer: str = click.prompt(question, hide_input=True, confirmation_prompt=is_repeated)
    return answer


def confirm(question: str, *, is_yes_default: bool = False) -> None:
    """Ask a question whose flag is --yes. Raises `Abort` if the answer is no, and `UsageError` if there is none."""
    if not is_input_allowed():
        raise click.UsageError("--no-input leaves the question unanswered: use --yes")
    is_terminal = load("runyard.cli.files:get_stdin")().isatty()
    prompt = f"{question} [{'Y/n' if is_yes_default else 'y/N'}]: "
    answers = {"y": True, "yes": True, "n": False, "no": False, "": is_yes_default}
    try:
        while (answer := _read_line(prompt).strip().lower()) not in answers:
            click.echo("answer y or n", err=True)
    except click.Abort:  # Ctrl-C, or the end of standard input
        if is_terminal:
            raise
        raise click.UsageError("no answer on standard input: use --yes") from None
    if not answers[answer]:
        raise click.Abort


def _read_line(prompt: str) -> str:
    """Ask on standard error and read a line. Not by `input()`, which drops a Ctrl-C while it flushes its prompt."""
    stdin = load("runyard.cli.files:get_stdin")()
    try:
        # Names in a question may be the server's.
        click.echo(load("runyard.cli.output:clean")(prompt), nl=False, err=True)
        with load("runyard.cli.interrupts:repeat_interrupts")():
            line: str = stdin.readline(MOST_ANSWER_LENGTH)
    except KeyboardInterrupt:
        raise click.Abort from None
    if not line:
        raise click.Abort
    return line
