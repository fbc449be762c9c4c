"""Errors and warnings with their place in a file: how they are printed, and how they end a command."""

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import IO, Any

import click

from runyard.cli.output import Severity, clean, has_colour, paint
from runyard.spec.problems import Problem, omit_repeated_lists, shorten

Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem and its location: a file, or the option that set the value. None if it has no location."""

    problem: Problem
    file: str | None = None
    place: Place | None = None

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON with the names of the effective spec; unknown parts are omitted."""
        shown = self.problem.to_dict()
        if self.file is not None:
            shown["file"] = self.file
        if self.place is not None:
            shown["line"], shown["column"] = self.place
        return shown


class Failed(click.ClickException):
    """Input was refused. Carries all errors, and the warnings found beside them. Ends a command with 1."""

    def __init__(self, errors: Iterable[Finding], warnings: Iterable[Finding] = ()) -> None:
        self.errors = tuple(errors)
        self.warnings = tuple(warnings)
        super().__init__(f"{len(self.errors)} problems")

    def show(self, file: IO[Any] | None = None) -> None:  # noqa: ARG002 - click's signature
        """Print all warnings and errors to standard error."""
        print_report(self.warnings, self.errors)


def print_report(warnings: Iterable[Finding], errors: Iterable[Finding], *, is_answer: bool = False) -> None:
    """Print warnings, then errors, location first. They go to standard error, or to standard output if `is_answer`."""
    stream = sys.stdout if is_answer else sys.stderr
    colour = has_colour(stream)
    severities: list[tuple[Severity, Finding]] = [
        *(("warning", warning) for warning in warnings),
        *(("error", error) for error in errors),
    ]
    problems = omit_repeated_lists(finding.problem for _, finding in severities)
    for (severity, finding), problem in zip(severities, problems, strict=True):
        text = format_finding(replace(finding, problem=problem), severity, colour=colour)
        click.echo(text, file=stream, color=colour)


def print_warnings(warnings: Iterable[Finding]) -> None:
    """Print warnings to standard error."""
    print_report(warnings, ())


def format_finding(finding: Finding, severity: Severity, *, colour: bool = False) -> str:
    """Format as `run.yaml:3:10: error: resources.mem: …`; value, allowed values and suggestion follow on own lines."""
    problem = finding.problem
    place = [clean(finding.file)] if finding.file is not None else []
    place += map(str, finding.place or ())
    lead = [":".join(place) + ":"] if place else []
    lead.append(paint(f"{severity}:", severity, colour=colour))
    if problem.path:
        lead.append(clean(problem.where) + ":")
    lines = [" ".join([*lead, clean(problem.message)])]
    given = "" if problem.value is None else clean(shorten(problem.value))
    if given and not _mentions(problem.message, given):
        lines.append(f"    given: {given}")
    if problem.allowed:
        lines.append(f"    allowed: {clean(problem.allowed)}")
    if problem.suggestion:
        lines.append(f"    try: {clean(problem.suggestion)}")
    return "\n".join(lines)


def _mentions(message: str, value: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", message) is not None
