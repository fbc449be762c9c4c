"""Tables in HTML, as notebooks show them. Everything is escaped, and cut to what a page can hold."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, TypeVar

MOST_ROWS = 100
MOST_CELL = 300
"""Characters of a cell."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
T = TypeVar("T")


class Listing(list[T]):
    """A list that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        rows = [to_cells(each) for each in self[:MOST_ROWS]]
        head = list(dict.fromkeys(name for row in rows for name in row))
        table = render_table(head, [[row.get(name, "") for name in head] for row in rows])
        rest = len(self) - len(rows)
        return f"{table}<p>and {rest} more</p>" if rest > 0 else table


def to_cells(item: Any) -> Mapping[str, Any]:
    """The cells of a row by the names of their columns."""
    if isinstance(cells := getattr(item, "cells", None), Mapping):
        return cells
    return item if isinstance(item, Mapping) else {"name": item}


def render_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table with a header."""
    columns = "".join(f"<th>{render_text(name)}</th>" for name in head)
    lines = ("".join(f"<td>{render_text(cell)}</td>" for cell in row) for row in rows)
    return f"<table><tr>{columns}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def render_fields(fields: Mapping[str, Any]) -> str:
    """A table of names and values."""
    rows = list(fields.items())[:MOST_ROWS]
    cells = (f"<tr><th>{render_text(name)}</th><td>{render_text(value)}</td></tr>" for name, value in rows)
    return f"<table>{''.join(cells)}</table>"


def render_text(value: Any, *, most: int = MOST_CELL) -> str:
    """A value as escaped text. Characters that are not visible, such as those that turn text around, are spelled out.

    Colours of terminals are left out.
    """
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value, default=str)
    text = _COLOURS.sub("", text[: 2 * most])
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    return escape("".join(each if each.isprintable() or each == "\t" else _spell(each) for each in text))


def _spell(character: str) -> str:
    return " " if character in "\r\n" else character.encode("unicode_escape", "backslashreplace").decode()
