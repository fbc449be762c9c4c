"""Problems that the server reports, as findings with the line of the user's file."""

import re
from collections.abc import Iterable

from runyard.cli.findings import Finding
from runyard.cli.source_locations import Source
from runyard.sdk.errors import Problem as ServerProblem
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem

_PART = re.compile(r"\[([^\[\]]*)\]|([^.\[\]]+)")


def to_finding(problem: ServerProblem, source: Source | None = None) -> Finding:
    """The finding; with a source, at its line there. Codes of newer servers are shown as `field.invalid`."""
    code = next((known for known in Code if known.value == problem.code), Code.FIELD_INVALID)
    path = parse_path(problem.path)
    path = path[2:] if path[:1] == ("drafts",) else path
    path = path[1:] if path[:1] == ("spec",) else path
    found = Problem(code, path, problem.message, problem.value, problem.allowed, problem.suggestion)
    if source is None:
        return Finding(found)
    located = source.locate(found)
    return located if located.place is not None else Finding(found)


def to_findings(problems: Iterable[ServerProblem], source: Source | None = None) -> tuple[Finding, ...]:
    """All findings, in the order of the server."""
    return tuple(to_finding(problem, source) for problem in problems)


def parse_path(text: str) -> Path:
    """`volumes[0].spec` as `("volumes", 0, "spec")`."""
    parts: list[str | int] = []
    for match in _PART.finditer(text):
        index, name = match[1], match[2]
        parts.append(name if index is None else int(index) if index.isdecimal() else index)
    return tuple(parts)
