"""Output of `runyard explain`: every value of a run, who set it, and what it replaced."""

from collections.abc import Sized
from typing import Any

import click

from runyard.cli.findings import Failed, Finding, print_report
from runyard.cli.inputs import Decision, Inputs, decide, read_inputs
from runyard.cli.lazy_commands import load
from runyard.cli.options import RunOptions
from runyard.cli.output import clean, count_things, format_value, print_data, print_note
from runyard.cli.plan_sources import OFFLINE
from runyard.domain.effective_spec import Leaf
from runyard.manifests.checks import needs_launcher
from runyard.spec.problems import format_path
from runyard.spec.run_fields import ADMIN_FIELDS

HEAD = ("field", "value", "set by", "replaced")
_ORDER = {name: index for index, name in enumerate(("kind", "action", "pod_security", *ADMIN_FIELDS))}


def print_explanation(options: RunOptions, *, reason: str, output: str) -> None:
    """Print the table, warnings, refusals and the verdict; or all of it as JSON or YAML.

    A python function without `command` would start, because servers with an engine have a launcher.
    """
    try:
        inputs = read_inputs(options)
    except Failed as failed:
        if output == "table":
            failed.show()
            click.echo(format_verdict(failed.errors, failed.warnings))
            raise click.exceptions.Exit(failed.exit_code) from None
        found = _show_findings(failed.warnings, failed.errors)
        print_data({"answered_by": None, "effective": None, "provenance": [], **found}, output=output)
        raise click.exceptions.Exit(failed.exit_code) from None
    print_note(f"answered offline, {reason}")
    decision = decide(inputs, has_launcher=True)
    if needs_launcher(decision.resolution.spec):
        print_note("the launcher of a server's engine starts this function; `runyard render` needs a `command`")
    if output == "table":
        _print_table(inputs, decision)
    else:
        print_data(to_data(inputs, decision), output=output)
    if decision.refusals:
        raise click.exceptions.Exit(1)


def to_data(inputs: Inputs, decision: Decision) -> dict[str, Any]:
    """The explanation as plain data: amounts as text, times in seconds, nothing shortened."""
    run = {"id": inputs.run_id, "project": inputs.request.project, "namespace": inputs.options.namespace}
    return {
        "answered_by": OFFLINE,
        "run": {name: value for name, value in run.items() if value is not None},
        "effective": decision.resolution.spec.to_dict(),
        "provenance": [leaf.to_dict() for leaf in _sort_leaves(decision)],
        **_show_findings(decision.warnings, decision.refusals),
    }


def _print_table(inputs: Inputs, decision: Decision) -> None:
    namespace = f", namespace {inputs.options.namespace}" if inputs.options.namespace else ""
    click.echo(f"run {inputs.run_id}, project {inputs.request.project}{namespace}\n")
    rows = [_leaf_to_row(leaf) for leaf in _sort_leaves(decision)]
    load("runyard.cli.tables:print_table")(HEAD, rows, optional=("replaced",))
    click.echo()
    print_report(decision.warnings, decision.refusals, is_answer=True)
    click.echo(format_verdict(decision.refusals, decision.warnings))


def format_verdict(refusals: Sized, warnings: Sized) -> str:
    """Format the last line of an explanation: `would start, 1 warning` or `refused: 2 problems`."""
    verdict = f"refused: {count_things(len(refusals), 'problem')}" if len(refusals) else "would start"
    return f"{verdict}, {count_things(len(warnings), 'warning')}" if len(warnings) else verdict


def _sort_leaves(decision: Decision) -> list[Leaf]:
    """In the order in which fields are documented; entries of one field in the order of the resolution."""
    return sorted(decision.resolution.leaves, key=lambda leaf: _ORDER.get(str(leaf.path[0]), len(_ORDER)))


def _leaf_to_row(leaf: Leaf) -> tuple[str, ...]:
    set_by = leaf.source if leaf.rule is None else f"{leaf.source} ({leaf.rule})"
    replaced = ", ".join(f"{format_value(leaf.path, other.value)} ({other.by})" for other in leaf.replaced)
    return clean(format_path(leaf.path)), format_value(leaf.path, leaf.value), clean(set_by), clean(replaced)


def _show_findings(warnings: tuple[Finding, ...], refusals: tuple[Finding, ...]) -> dict[str, Any]:
    return {
        "warnings": [finding.to_dict() for finding in warnings],
        "refusals": [finding.to_dict() for finding in refusals],
    }
