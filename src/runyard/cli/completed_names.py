"""Completion of names that the server knows, for arguments and options: `shell_complete=complete("run")`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import click

from runyard.cli.lazy_commands import load

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Kind = Literal["run", "function", "project", "profile", "secret", "config map", "volume", "stored", "context"]
"""What is named. `stored` is what `--type` says: an artifact, a data item or a model."""
Complete = Callable[[click.Context, click.Parameter, str], "list[CompletionItem[str]]"]


def complete(kind: Kind) -> Complete:
    """A completion of names of that kind. It is silent: whatever fails, there are no names."""

    def find(ctx: click.Context, _param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
        try:
            names = load("runyard.cli.server_names:find_names")(kind, ctx.params)
        except Exception:  # noqa: BLE001 - a message would be written into the line that the user is typing
            return []
        item = load("click.shell_completion:CompletionItem")
        said = {str(word) for value in ctx.params.values() if isinstance(value, tuple) for word in value}
        return [item(name, help=text) for name, text in names if name.startswith(incomplete) and name not in said]

    return find
