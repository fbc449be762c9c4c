"""Prints tables. On a terminal they fit its width; in a pipe every row is one line.

No library is used: the usual one is a third of the size of the base install.
"""

import shutil
import sys
from collections.abc import Iterable, Sequence

import click

from runyard.cli.output import has_colour

GAP = "  "
NARROWEST = 12


def print_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under a header. Cells that are too wide are wrapped, never truncated."""
    cells = [[str(cell) for cell in row] for row in rows]
    titles = [name.upper() for name in head]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    widths = _choose_widths([titles, *cells], most=width)
    colour = has_colour(sys.stdout)
    for line in _iter_lines(titles, widths):
        click.echo(click.style(line, bold=True) if colour else line, color=colour)
    for row in cells:
        for line in _iter_lines(row, widths):
            click.echo(line, color=colour)


def _choose_widths(rows: Sequence[Sequence[str]], *, most: int | None) -> list[int]:
    """Return the widths of the columns; shrinks the widest columns until a line fits."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = None if most is None else most - len(GAP) * (len(widths) - 1)
    while room is not None and sum(widths) > room and max(widths) > NARROWEST:
        widest = widths.index(max(widths))
        widths[widest] = max(NARROWEST, widths[widest] - max(1, sum(widths) - room))
    return widths


def _iter_lines(row: Sequence[str], widths: Sequence[int]) -> Iterable[str]:
    folded = [_fold(cell, width) for cell, width in zip(row, widths, strict=True)]
    for index in range(max(map(len, folded))):
        parts = [lines[index] if index < len(lines) else "" for lines in folded]
        yield GAP.join(part.ljust(width) for part, width in zip(parts, widths, strict=True)).rstrip()


def _fold(cell: str, width: int) -> list[str]:
    return [cell[start : start + width] for start in range(0, len(cell), width)] or [""]
