"""What was found wrong or doubtful, with its place: how it is shown, and how it ends a command."""

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO, Any

import click

from runyard.cli.output import Severity, clean, has_colour, paint
from runyard.spec.problems import Path, Problem, format_path, shorten

Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem, and where it is: a file, or the option that said it; None where no place is to blame."""

    problem: Problem
    file: str | None = None
    place: Place | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON, in the words of the effective spec; what is not known is left out."""
        shown = self.problem.to_dict()
        if self.file is not None:
            shown["file"] = self.file
        if self.place is not None:
            shown["line"], shown["column"] = self.place
        return shown


class Failed(click.ClickException):
    """Inputs were refused: all that is wrong with them, and what is doubtful beside it. Ends a command with 1."""

    def __init__(self, errors: Iterable[Finding], warnings: Iterable[Finding] = ()) -> None:
        self.errors = tuple(errors)
        self.warnings = tuple(warnings)
        super().__init__(f"{len(self.errors)} problems")

    def show(self, file: IO[Any] | None = None) -> None:  # noqa: ARG002 - click's signature
        """All of it, on standard error."""
        print_findings(self.warnings, "warning")
        print_findings(self.errors, "error")


def print_findings(findings: Iterable[Finding], severity: Severity, *, is_answer: bool = False) -> None:
    """Findings, each with its place first; to standard error, unless they are what was asked for."""
    stream = sys.stdout if is_answer else sys.stderr
    for finding in findings:
        click.echo(format_finding(finding, severity, colour=has_colour(stream)), file=stream, color=has_colour(stream))


def format_finding(finding: Finding, severity: Severity, *, colour: bool = False) -> str:
    """`run.yaml:3:10: error: resources.mem: …`, and below it what was given, what is allowed, what was meant."""
    problem = finding.problem
    place = [clean(finding.file)] if finding.file is not None else []
    place += map(str, finding.place or ())
    lead = [":".join(place) + ":"] if place else []
    lead.append(paint(f"{severity}:", severity, colour=colour))
    if problem.path:
        lead.append(clean(show_path(problem.path)) + ":")
    lines = [" ".join([*lead, clean(problem.message)])]
    given = "" if problem.value is None else clean(shorten(problem.value))
    if given and not _says(problem.message, given):
        lines.append(f"    given: {given}")
    if problem.allowed:
        lines.append(f"    allowed: {clean(problem.allowed)}")
    if problem.suggestion:
        lines.append(f"    try: {clean(problem.suggestion)}")
    return "\n".join(lines)


def _says(message: str, value: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", message) is not None


def show_path(path: Path) -> str:
    """A path in the words in which users write it: `resources.mem.requests`, `volumes[data].size`."""
    if len(path) == 3 and path[0] == "resources" and path[2] in ("request", "limit"):
        path = (*path[:2], f"{path[2]}s")
    return format_path(path)
