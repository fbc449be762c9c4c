"""What a section returns, and how it is printed."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

Cell = str | float


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of figures; the first column is text, the others are aligned to the right."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal for one figure: `value` must be at least `at_least`, or at most `at_most`."""

    name: str
    value: float
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None

    @property
    def is_met(self) -> bool:
        """Whether the goal is met."""
        is_enough = self.at_least is None or self.value >= self.at_least
        return is_enough and (self.at_most is None or self.value <= self.at_most)

    @property
    def text(self) -> str:
        """Describe the goal."""
        bounds = [f"≥ {self.at_least:g}"] if self.at_least is not None else []
        bounds += [f"≤ {self.at_most:g}"] if self.at_most is not None else []
        return " and ".join(bounds)


@dataclass(frozen=True, slots=True)
class Section:
    """The result of one measurement."""

    title: str
    tables: Sequence[Table]
    goals: Sequence[Goal] = ()
    notes: Sequence[str] = field(default=())


def progress(text: str) -> None:
    """Print progress to standard error; standard output is for the figures."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def render(section: Section) -> str:
    """A section as plain text."""
    parts = [f"== {section.title}"]
    parts += [_render_table(table) for table in section.tables]
    if section.goals:
        rows = [
            [goal.name, f"{goal.value:.2f} {goal.unit}".strip(), goal.text, "met" if goal.is_met else "NOT MET"]
            for goal in section.goals
        ]
        parts.append(_render_table(Table("goals", ["", "is", "goal", ""], rows)))
    parts.append("\n".join(section.notes))
    return "\n\n".join(part for part in parts if part) + "\n"


def _render_table(table: Table) -> str:
    lines = [list(table.columns), *([_render_cell(cell) for cell in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    header, *rows = [_align(line, widths) for line in lines]
    return "\n".join([f"{table.title}:", header, "  ".join("-" * width for width in widths), *rows])


def _align(line: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(line, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]).rstrip()


def _render_cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return cell
    return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.2f}"
