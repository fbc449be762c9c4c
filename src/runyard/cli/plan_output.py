"""Prints explanations of the server: every value of a run with its owner, then warnings and refusals."""

from typing import Any

import click

from runyard.cli.explanation import HEAD, format_verdict
from runyard.cli.findings import print_report
from runyard.cli.output import clean, format_value
from runyard.cli.server_problems import parse_path, to_findings
from runyard.cli.source_locations import Source
from runyard.cli.tables import print_table
from runyard.sdk.explanations import Explanation, Owned


def print_values(explanation: Explanation, *, is_answer: bool = True) -> None:
    """Print the table of values and owners."""
    rows = [_to_row(owned) for owned in explanation.provenance]
    print_table(HEAD, rows, optional=("replaced",), is_answer=is_answer)


def print_plan(explanation: Explanation, *, source: Source | None, is_answer: bool) -> None:
    """Print the table, then warnings and refusals with the lines of the user's file, and the verdict."""
    print_values(explanation, is_answer=is_answer)
    click.echo(err=not is_answer)
    warnings = to_findings(explanation.warnings, source)
    refusals = to_findings(explanation.refusals, source)
    print_report(warnings, refusals, is_answer=is_answer)
    click.echo(format_verdict(refusals, warnings), err=not is_answer)


def explanation_to_data(explanation: Explanation, *, source: Source | None = None) -> dict[str, Any]:
    """An explanation as plain data, with the names of `runyard explain`."""
    return {
        "effective": dict(explanation.effective),
        "provenance": [_owned_to_data(owned) for owned in explanation.provenance],
        "warnings": [finding.to_dict() for finding in to_findings(explanation.warnings, source)],
        "refusals": [finding.to_dict() for finding in to_findings(explanation.refusals, source)],
    }


def _owned_to_data(owned: Owned) -> dict[str, Any]:
    names = ("path", "value", "set_by", "source", "rule")
    return {**{name: getattr(owned, name) for name in names}, "replaced": list(owned.replaced)}


def _to_row(owned: Owned) -> tuple[str, ...]:
    path = parse_path(owned.path)
    value = _hide_code(owned.value) if path == ("source",) else owned.value
    set_by = owned.source if owned.rule is None else f"{owned.source} ({owned.rule})"
    replaced = ", ".join(f"{format_value(path, other.get('value'))} ({other.get('by')})" for other in owned.replaced)
    return clean(owned.path), format_value(path, value), clean(set_by), clean(replaced)


def _hide_code(source: Any) -> Any:
    """The code's name and handler, without its text."""
    return {name: text for name, text in source.items() if name not in ("base64", "code")}
