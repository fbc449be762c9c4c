"""Prints tables. On a terminal they fit its width; in a pipe every row is one line.

No library is used: the usual one is a third of the size of the base install.
"""

import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unicodedata import combining, east_asian_width

import click

from runyard.cli.listings import NAME, TABLE, WIDE, Listing
from runyard.cli.output import clean, has_colour, print_data

GAP = "  "
ELLIPSIS = "…"
LONG_WORDS = (48, 40, 32, 24)
"""Lengths to which words are cut before a column is left out, tried in this order."""
SHORT_WORDS = (20, 16, 12, 8)
"""Lengths to which words are cut when no further column can be left out."""
Rows = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The columns that are shown, by index, and the longest word in the first column and in the others."""

    columns: tuple[int, ...]
    most: int | None = None
    most_in_first: int | None = None


def print_listing(
    listing: Listing,
    rows: Sequence[Mapping[str, str]],
    *,
    data: Sequence[Any],
    named: str = "name",
    optional: Sequence[str] = (),
) -> None:
    """Print a list in its form.

    Each row has a cell for every column of the listing, `data` the entries for programs, `named` the column with the
    names, `optional` the columns that a narrow terminal may leave out, in their order.
    """
    if listing.output == NAME:
        for row in rows:
            click.echo(clean(row[named]))
    elif listing.output in (TABLE, WIDE):
        cells = [[clean(row[column]) for column in listing.columns] for row in rows]
        left_out = () if listing.is_chosen else [column for column in optional if column in listing.columns]
        print_table(listing.columns, cells, optional=left_out)
    else:
        print_data(list(data), output=listing.output)


def print_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, optional: Collection[str] = (), is_answer: bool = True
) -> None:
    """Print rows under a header, to standard output if the table is the answer, otherwise to standard error.

    On a narrow terminal cells are wrapped between words. If that is not enough, long words are cut and marked with an
    ellipsis, and `optional` columns are left out, in their order; a last line says so.
    """
    stream = sys.stdout if is_answer else sys.stderr
    width = shutil.get_terminal_size().columns if stream.isatty() else None
    colour = has_colour(stream)
    for line in format_table(head, rows, optional=optional, width=width, colour=colour):
        click.echo(line, file=stream, color=colour)


def format_table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    optional: Collection[str] = (),
    width: int | None,
    colour: bool = False,
) -> list[str]:
    """The lines of a table, as `print_table` prints them; without a width every row is one line."""
    cells = [_make_head(head), *([str(cell) for cell in row] for row in rows)]
    layout = Layout(columns=tuple(range(len(head)))) if width is None else _choose_layout(head, cells, optional, width)
    shown = _apply(layout, cells)
    widths = _choose_widths(shown, most=width)
    lines = []
    for index, row in enumerate(shown):
        is_bold = colour and index == 0
        lines += [click.style(line, bold=True) if is_bold else line for line in _iter_lines(row, widths)]
    left_out = [name for index, name in enumerate(head) if index not in layout.columns and not _is_empty(cells, index)]
    if width is not None and (left_out or _has_cut(cells, shown, layout)):
        lines += _iter_omission(left_out, width)
    return lines


class GrowingTable:
    """Rows that are printed as they come, each in one line, in columns that grow and never shrink."""

    def __init__(self, head: Sequence[str]) -> None:
        self._widths = [0] * len(head)
        self._waiting = [_make_head(head)]

    def format_rows(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """The lines of some rows, before the first ones the header."""
        cells, self._waiting = ([*self._waiting, *rows], []) if rows else ([], self._waiting)
        for row in cells:
            self._widths = [max(width, measure(cell)) for width, cell in zip(self._widths, row, strict=True)]
        return [line for row in cells for line in _iter_lines(row, self._widths)]


def _make_head(names: Sequence[str]) -> list[str]:
    return [name.replace("-", " ").upper() for name in names]


def _choose_layout(head: Sequence[str], cells: Rows, optional: Collection[str], width: int) -> Layout:
    """Return the first layout whose longest words fit the width, or else the last one."""
    every = tuple(range(len(head)))
    named = tuple(index for index in every if head[index] not in optional or not _is_empty(cells, index))
    order = [head.index(name) for name in optional if name in head]
    for layout in (Layout(columns=every), *_iter_layouts(named, order, width)):
        columns = list(zip(*_apply(layout, cells), strict=True))
        if sum(map(_find_longest_word, columns)) + len(GAP) * (len(columns) - 1) <= width:
            break
    return layout


def _iter_layouts(columns: tuple[int, ...], optional: Sequence[int], width: int) -> Iterator[Layout]:
    """Yield layouts, the most complete first. The last one fits every terminal that has room for short words."""
    for left_out in (None, *optional):
        columns = tuple(index for index in columns if index != left_out)
        yield from (Layout(columns=columns, most=most) for most in (None, *LONG_WORDS))
    yield from (Layout(columns=columns, most=most) for most in SHORT_WORDS)
    shortest = SHORT_WORDS[-1]
    first = max(shortest, width - (len(columns) - 1) * (shortest + len(GAP)))
    yield Layout(columns=columns, most=shortest, most_in_first=first)


def _is_empty(cells: Rows, index: int) -> bool:
    return not any(row[index] for row in cells[1:])


def _has_cut(cells: Rows, shown: Rows, layout: Layout) -> bool:
    return any([row[index] for index in layout.columns] != other for row, other in zip(cells, shown, strict=True))


def _apply(layout: Layout, cells: Rows) -> list[list[str]]:
    return [
        [_cut_words(row[index], layout.most if index else layout.most_in_first) for index in layout.columns]
        for row in cells
    ]


def _cut_words(cell: str, most: int | None) -> str:
    if most is None or all(measure(word) <= most for word in cell.split(" ")):
        return cell
    return " ".join(word if measure(word) <= most else _cut(word, most) for word in cell.split(" "))


def _cut(word: str, most: int) -> str:
    while measure(word) > most - len(ELLIPSIS):
        word = word[:-1]
    return word + ELLIPSIS


def _choose_widths(rows: Rows, *, most: int | None) -> list[int]:
    """Return the widths of the columns; narrows the widest ones, down to their longest words, until a line fits."""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(measure, column)) for column in columns]
    if most is None:
        return widths
    least = [_find_longest_word(column) for column in columns]
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - most
    while excess > 0 and (wide := [index for index, width in enumerate(widths) if width > least[index]]):
        widest = max(wide, key=widths.__getitem__)
        widths[widest] -= 1
        excess -= 1
    return widths


def _find_longest_word(column: Iterable[str]) -> int:
    return max(measure(word) for cell in column for word in cell.split(" "))


def _iter_lines(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    wrapped = [list(_wrap(cell, width)) for cell, width in zip(row, widths, strict=True)]
    for index in range(max(map(len, wrapped))):
        parts = [lines[index] if index < len(lines) else "" for lines in wrapped]
        padded = (part + " " * (width - measure(part)) for part, width in zip(parts, widths, strict=True))
        yield GAP.join(padded).rstrip()


def _wrap(cell: str, width: int) -> Iterator[str]:
    """Yield the lines of a cell, broken only at spaces. A word that is wider than the column has a line of its own."""
    if measure(cell) <= width:
        yield cell
        return
    line = ""
    for word in cell.split():
        longer = f"{line} {word}" if line else word
        if line and measure(longer) > width:
            yield line
            line = word
        else:
            line = longer
    yield line


def measure(text: str) -> int:
    """Return the columns that a text takes on a terminal: two for East Asian wide letters, none for combining marks."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def _iter_omission(left_out: Sequence[str], width: int) -> Iterator[str]:
    what = f"without {' and '.join(f'`{name}`' for name in left_out)}" if left_out else "shortened"
    yield from _wrap(f"({what} to fit {width} columns; complete when piped)", width)
