"""Prints the errors of click in the form of ours: `error: …`, lower case, no full stop, names in backticks."""

import re
import sys

import click

from runyard.cli.lazy_commands import load

_QUOTED = re.compile(r"'([^'\n]*)'")
_PROPOSAL = re.compile(r"\. \(?Did you mean (?:one of: )?(.*)\?\)?$")
_NOUN = re.compile(r"(?<=: )(?:File|Path|Directory)\b")
_CLICKS = (click.ClickException.show, click.UsageError.show)


def show_error(error: click.ClickException) -> None:
    """Print an error to standard error. Exceptions with a `show` of their own print themselves."""
    if type(error).show not in _CLICKS:
        error.show()
        return
    if isinstance(error, click.UsageError) and error.ctx is not None:
        click.echo(_describe_usage(error.ctx), err=True)
    print_error(format_error(error))


def print_error(message: str) -> None:
    """Print `error: MESSAGE` to standard error, in colour on a terminal."""
    has_colour = load("runyard.cli.output:has_colour")(sys.stderr)
    severity = load("runyard.cli.output:paint")("error:", "error", colour=has_colour)
    click.echo(f"{severity} {load('runyard.cli.output:clean_lines')(message)}", err=True, color=has_colour)


def format_error(error: click.ClickException) -> str:
    """The message of an error. Usage errors, most of which click words, are brought into our form."""
    text = error.format_message()
    if not isinstance(error, click.UsageError):
        return text
    text = _NOUN.sub(lambda match: match[0].lower(), _QUOTED.sub(r"`\1`", text)).removesuffix(".")
    text = _PROPOSAL.sub(r"; did you mean \1?", text)
    return text[:1].lower() + text[1:]


def _describe_usage(ctx: click.Context) -> str:
    return f"{ctx.get_usage()}\nTry `{ctx.command_path} --help` for help.\n"
