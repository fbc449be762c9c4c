"""Lazy loading of commands and functions by name, so that a command imports only what it needs."""

import gc
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Entry(NamedTuple):
    """A command that is not loaded yet: where it is, and its line in the list of commands."""

    target: str
    """`package.module:name`."""
    line: str


def load(target: str) -> Any:
    """Import and return an object by its name, such as `runyard.cli.manifest_output:print_manifests`.

    Without garbage collections: imports leave next to no garbage, and each full collection walks through everything
    that they have made. That is a quarter of the CPU time of importing the server.
    """
    module, _, name = target.partition(":")
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return getattr(import_module(module), name)
    finally:
        if was_enabled:
            gc.enable()


class LazyGroup(click.Group):
    """A click group whose commands are in a table. Listing and completing their names imports none of them."""

    def __init__(self, *args: Any, entries: Mapping[str, Entry], **more: Any) -> None:
        super().__init__(*args, **more)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names, in the order of the table."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Load a command, or return None if the name is unknown."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = load(entry.target)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command; suggest the nearest name if it is unknown. Click searches only loaded commands."""
        name = args[0]
        if name not in self.entries and not name.startswith("-") and not ctx.resilient_parsing:
            nearest = load("runyard.spec.problems:find_nearest")(name, self.entries)
            meant = f"did you mean `{nearest}`?" if nearest else f"allowed: {', '.join(self.entries)}"
            ctx.fail(f"unknown command `{name}`; {meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands from the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.line) for name, entry in self.entries.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[str]]":
        """Complete names from the table, then options."""
        return [*self._iter_items(incomplete), *click.Command.shell_complete(self, ctx, incomplete)]

    def _iter_items(self, incomplete: str) -> "Iterator[CompletionItem[str]]":
        item = load("click.shell_completion:CompletionItem")
        for name, entry in self.entries.items():
            if name.startswith(incomplete):
                yield item(name, help=entry.line)
