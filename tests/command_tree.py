"""The commands of the command line, and the examples and exit codes in their help texts."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import click

from runyard.cli.lazy_commands import LazyGroup
from runyard.cli.main import root

EXAMPLES = "Examples"
EXIT_CODES = "Exit codes"


@dataclass(frozen=True)
class ListedCommand:
    """A command with its full name, such as `runyard db backup`, and the context in which its help is shown."""

    name: str
    context: click.Context

    @property
    def command(self) -> click.Command:
        return self.context.command

    @property
    def has_commands(self) -> bool:
        return isinstance(self.command, LazyGroup)

    @cached_property
    def examples(self) -> tuple[str, ...]:
        """Shell lines, in the order of the help text."""
        return self._read_block(EXAMPLES)

    @cached_property
    def exit_codes(self) -> tuple[str, ...]:
        """Each with its meaning, such as `2 usage error`."""
        lines = self._read_block(EXIT_CODES)
        return tuple(code.strip() for line in lines for code in re.split(r" {3,}", line))

    @cached_property
    def other_blocks(self) -> dict[str, str]:
        """Further blocks at the end of the help text, by title."""
        text = re.sub("\x08", "", self.command.epilog or "")
        found = re.findall(r"^(\w.*):\n((?:  .*\n?)+)", text, re.MULTILINE)
        return {title: inspect.cleandoc(lines) + "\n" for title, lines in found if title not in (EXAMPLES, EXIT_CODES)}

    def _read_block(self, title: str) -> tuple[str, ...]:
        text = re.sub("\x08", "", self.command.epilog or "")
        found = re.search(rf"^{title}:\n((?:  .*\n?)+)", text, re.MULTILINE)
        return tuple(line.strip() for line in found[1].splitlines()) if found else ()


def iter_commands() -> Iterator[ListedCommand]:
    """The root first, then every command before its own commands, in the order of the help texts."""
    settings = root.context_settings
    yield from _walk(ListedCommand("runyard", click.Context(root, info_name="runyard", **settings)))


def _walk(listed: ListedCommand) -> Iterator[ListedCommand]:
    yield listed
    if not isinstance(listed.command, LazyGroup):
        return
    for name in listed.command.list_commands(listed.context):
        command = listed.command.get_command(listed.context, name)
        assert command is not None
        context = click.Context(command, parent=listed.context, info_name=name)
        yield from _walk(ListedCommand(f"{listed.name} {name}", context))
