"""What a run gets, who decided each value, and what was ignored. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runyard.sdk.documents import Section
from runyard.sdk.errors import Problem, read_problems
from runyard.sdk.html_tables import render_table, render_text

HEAD = ("field", "value", "set by", "replaced")
VALUE_CHARACTERS = 80
MOST_NOTE = 2000
"""Characters of a problem in a notebook."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """One value of the effective spec, and its owner."""

    path: str
    value: Any
    set_by: str
    """`platform`, `base`, `function`, `task`, `you`, `profile`, `policy` or `cluster`."""
    source: str
    """The same for people: `profile 1xa100`."""
    rule: str | None = None
    replaced: tuple[Mapping[str, Any], ...] = ()

    def to_row(self) -> tuple[str, str, str, str]:
        """Its line in a table."""
        set_by = self.source if self.rule is None else f"{self.source} ({self.rule})"
        replaced = ", ".join(f"{_show(other.get('value'))} ({other.get('by')})" for other in self.replaced)
        return self.path, _show(self.value), set_by, replaced


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The effective spec of a run with an owner for every value; printed, a table."""

    effective: Section = field(repr=False)
    provenance: tuple[Owned, ...] = field(repr=False)
    warnings: tuple[Problem, ...] = ()
    refusals: tuple[Problem, ...] = ()
    profile_revision: int | None = None
    policy_revision: int | None = None

    @property
    def would_start(self) -> bool:
        """Whether the server would accept the run."""
        return not self.refusals

    def find(self, path: str) -> Owned | None:
        """The value at a path, such as `resources.mem.requests`; None if it is not set."""
        return next((owned for owned in self.provenance if owned.path == path), None)

    def to_rows(self) -> list[tuple[str, ...]]:
        """The table without its head."""
        return [owned.to_row() for owned in self.provenance]

    def __str__(self) -> str:
        rows: list[Sequence[str]] = [[name.upper() for name in HEAD], *self.to_rows()]
        widths = [max(len(row[index]) for row in rows) for index in range(len(HEAD))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        lines += [f"warning: {problem}" for problem in self.warnings]
        lines += [f"refused: {problem}" for problem in self.refusals]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        said = [("warning", problem) for problem in self.warnings] + [("refused", problem) for problem in self.refusals]
        notes = "".join(f"<p><b>{word}</b>: {render_text(str(problem), most=MOST_NOTE)}</p>" for word, problem in said)
        return f"{render_table(HEAD, self.to_rows())}{notes}"


def read_explanation(answer: Mapping[str, Any]) -> Explanation:
    """An explanation from the server's JSON."""
    return Explanation(
        effective=Section(answer.get("effective") or {}),
        provenance=tuple(_read_owned(given) for given in answer.get("provenance") or ()),
        warnings=read_problems(answer.get("warnings")),
        refusals=read_problems(answer.get("refusals")),
        profile_revision=answer.get("profile_revision"),
        policy_revision=answer.get("policy_revision"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """The Kubernetes objects that a run would become, in the order in which they can be applied."""

    objects: tuple[Mapping[str, Any], ...] = field(repr=False)
    warnings: tuple[Problem, ...] = ()
    profile_revision: int | None = None
    policy_revision: int | None = None


def read_rendering(answer: Mapping[str, Any]) -> Rendering:
    """A rendering from the server's JSON."""
    return Rendering(
        objects=tuple(answer.get("objects") or ()),
        warnings=read_problems(answer.get("warnings")),
        profile_revision=answer.get("profile_revision"),
        policy_revision=answer.get("policy_revision"),
    )


def _read_owned(given: Mapping[str, Any]) -> Owned:
    return Owned(
        path=str(given.get("path", "")),
        value=given.get("value"),
        set_by=str(given.get("set_by", "")),
        source=str(given.get("source", "")),
        rule=given.get("rule"),
        replaced=tuple(given.get("replaced") or ()),
    )


def _show(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= VALUE_CHARACTERS else f"{text[: VALUE_CHARACTERS - 1]}…"
