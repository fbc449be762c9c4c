"""Prints the errors of click in the form of ours: `error: …`, lower case, no full stop, names in backticks."""

import itertools
import os
import re
import sys
from collections.abc import Iterable

import click

from runyard.cli.lazy_commands import load

_QUOTED = re.compile(r"'([^'\n]*)'")
_PROPOSAL = re.compile(r"\. \(?Did you mean (?:one of: )?(.*)\?\)?$")
_PLACEHOLDER = re.compile(r"`\[(\w+)\]`")
_NOT_A_CHOICE = re.compile(r"'(.*)' is not one of ", re.DOTALL)
_NOT_A_FILE = re.compile(r"(?:File|Path|Directory) '(.*)' does not exist", re.DOTALL)
MOST_FILES = 1000
"""How many files of a directory are compared with a name that does not exist."""
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
    text = _PLACEHOLDER.sub(r"`\1`", text)
    nearest = find_meant(error)
    meant = f"; did you mean `{nearest}`?" if nearest else r"; did you mean \1?"
    text = _PROPOSAL.sub("" if nearest else meant, text) + (meant if nearest else "")
    return text[:1].lower() + text[1:]


def find_meant(error: click.UsageError) -> str | None:
    """The option, value or file that was probably meant; None if none is near."""
    if isinstance(error, click.NoSuchOption):
        return _find_nearest(error.option_name, error.possibilities or ())
    if not isinstance(error, click.BadParameter):
        return None
    if isinstance(error.param, click.Parameter) and isinstance(error.param.type, click.Choice):
        given = _NOT_A_CHOICE.match(error.message)
        return _find_nearest(given[1], map(str, error.param.type.choices)) if given else None
    missing = _NOT_A_FILE.match(error.message)
    return _find_near_file(missing[1]) if missing else None


def _find_near_file(given: str) -> str | None:
    """The file or directory in the same directory whose name is nearest."""
    folder, name = os.path.split(given)
    try:
        with os.scandir(folder or ".") as entries:
            names = [entry.name for entry in itertools.islice(entries, MOST_FILES) if not entry.name.startswith(".")]
    except OSError:
        return None
    nearest = _find_nearest(name, names)
    return nearest and os.path.join(folder, nearest)  # noqa: PTH118 - as it was written, which pathlib would change


def _find_nearest(word: str, known: Iterable[str]) -> str | None:
    nearest: str | None = load("runyard.spec.problems:find_nearest")(word, known)
    return nearest


def _describe_usage(ctx: click.Context) -> str:
    return f"{ctx.get_usage()}\nTry `{ctx.command_path} --help` for help.\n"
