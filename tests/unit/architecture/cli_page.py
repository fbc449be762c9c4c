"""Writes docs/users/cli.md from the commands: `python -m tests.unit.architecture.cli_page`."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from runyard.cli.main import EXIT_CODES
from tests.command_tree import ListedCommand, iter_commands

PAGE = Path(__file__).parents[3] / "docs" / "users" / "cli.md"

_INTRODUCTION = """\
# Command line reference

This page is generated from the commands by `make docs`. `runyard COMMAND --help` prints the same about one command. A
test runs every example. `-h, --help` is left out below.

## Behaviour of all commands

- Answers go to standard output; errors, warnings, notes and questions to standard error. In a pipe, tables are complete
  and plain: one line per row. On a terminal they fit its width.
- `-o json` and `-o yaml` are for programs; their names are stable.
- Colours are used on a terminal only, and never if `NO_COLOR` is set or `TERM` is `dumb`.
- Questions are asked on a terminal only. `--no-input`, before the command or after one that asks, forbids them: a
  question without a default is then an error that names the option with the answer, such as `--yes`.
- An unknown command, option, field or value is answered with the nearest known one.

## Exit codes

| code | meaning |
|---|---|
"""
_OPTIONS = "| option | meaning |\n|---|---|\n"
_DEFAULT = re.compile(r"\s{2,}\[")


def render_page() -> str:
    """The whole page."""
    codes = "".join(f"| {code} | {meaning} |\n" for code, meaning in EXIT_CODES.items())
    root, *commands = iter_commands()
    options = "".join(_iter_options(root))
    contents = "".join(f"- [{listed.name}](#{listed.name.replace(' ', '-')})\n" for listed in commands)
    return "".join(
        [
            f"{_INTRODUCTION}{codes}\n## Options before the command\n\n{_OPTIONS}{options}",
            f"\n## Commands\n\n{contents}",
            *map(_render_command, commands),
        ]
    )


def _render_command(listed: ListedCommand) -> str:
    parts = [f"\n## {listed.name}\n", f"```\n{_render_usage(listed)}\n```\n", f"{_render_text(listed)}\n"]
    if isinstance(listed.command, click.Group):
        rows = "".join(
            f"| [{name}](#{listed.name.replace(' ', '-')}-{name}) | {_escape(entry.line)} |\n"
            for name, entry in getattr(listed.command, "entries", {}).items()
        )
        parts.append(f"| command | |\n|---|---|\n{rows}")
    if options := list(_iter_options(listed)):
        parts.append(_OPTIONS + "".join(options))
    parts += [f"{title}:\n\n```\n{lines}```\n" for title, lines in listed.other_blocks.items()]
    if listed.examples:
        parts.append("Examples:\n\n```sh\n" + "".join(f"{line}\n" for line in listed.examples) + "```\n")
    if listed.exit_codes:
        parts.append("Exit codes:\n\n" + "".join(f"- {_mark_code(code)}\n" for code in listed.exit_codes))
    return "\n".join(parts)


def _render_usage(listed: ListedCommand) -> str:
    pieces = listed.command.collect_usage_pieces(listed.context)
    return " ".join([listed.name, *pieces])


def _render_text(listed: ListedCommand) -> str:
    text = inspect.cleandoc(listed.command.help or "").replace("\b\n", "")
    return re.sub(r"(?<!`)<(\w+)>(?!`)", r"`<\1>`", text)


def _iter_options(listed: ListedCommand) -> Iterator[str]:
    for param in listed.command.params:
        record = param.get_help_record(listed.context) if isinstance(param, click.Option) else None
        if record is not None:
            names, text = record
            yield f"| `{_escape(names)}` | {_escape(_DEFAULT.sub(' [', text))} |\n"


def _mark_code(code: str) -> str:
    number, _, meaning = code.partition(" ")
    return f"`{number}` {meaning}" if number.isdecimal() else code


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(render_page(), encoding="utf-8")
