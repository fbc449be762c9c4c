"""Options of commands that list things: the form of the output, and the columns of the table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from runyard.cli.lazy_commands import load

Command = Callable[..., Any]
TABLE, WIDE, NAME = "table", "wide", "name"
ANY_FORM = (TABLE, WIDE, "json", "yaml", NAME)
UNNAMED_FORM = (TABLE, WIDE, "json", "yaml")
"""Forms of lists whose entries have no name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """How a list is printed: in which form; as a table, with which columns."""

    output: str
    columns: tuple[str, ...]
    is_chosen: bool = False
    """Whether the user named the columns: then none is left out on a narrow terminal."""


def add_listing(
    *columns: str, more: Sequence[str] = (), forms: Sequence[str] = ANY_FORM
) -> Callable[[Command], Command]:
    """Add `-o` and `--columns`; the command gets both as its argument `listing`.

    A table has `columns`, with `-o wide` also `more`. Names have hyphens instead of spaces.
    """
    every = (*columns, *more)
    forms = [form for form in forms if more or form != WIDE]

    def decorate(command: Command) -> Command:
        @wraps(command)
        def call(*args: Any, output: str, chosen: tuple[str, ...] | None, **given: Any) -> Any:
            if chosen and output not in (TABLE, WIDE):
                raise click.UsageError(f"--columns chooses those of a table; -o {output} has none")
            shown = chosen or (every if output == WIDE else columns)
            return command(*args, listing=Listing(output=output, columns=shown, is_chosen=bool(chosen)), **given)

        help_text = f"Columns of the table, in the order you name them: {', '.join(every)}."
        option = click.option("--columns", "chosen", metavar="NAME,NAME", callback=_make_reader(every), help=help_text)
        return click.option("-o", "--output", type=click.Choice(forms), default=TABLE, show_default=True)(option(call))

    return decorate


def _make_reader(every: Sequence[str]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    def read(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...] | None:
        if value is None:
            return None
        named = ["-".join(word.lower().split()) for word in value.split(",") if word.strip()]
        for name in named:
            if name not in every:
                nearest = load("runyard.spec.problems:find_nearest")(name, every)
                meant = f"did you mean `{nearest}`?" if nearest else f"allowed: {', '.join(every)}"
                raise click.BadParameter(f"unknown column `{name}`; {meant}", ctx=ctx, param=param)
        if not named:
            raise click.BadParameter(f"no column is named; allowed: {', '.join(every)}", ctx=ctx, param=param)
        return tuple(dict.fromkeys(named))

    return read
