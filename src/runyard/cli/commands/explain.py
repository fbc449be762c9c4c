"""`runyard explain`."""

from typing import Any

import click

from runyard.cli.lazy_commands import load
from runyard.cli.options import RunCommand, RunOptions, add_run_options

EXAMPLES = """\b
Examples:
  runyard explain -f run.yaml --profiles profiles/ --policy policy.yaml
  runyard explain -f run.yaml --profiles profiles/ --profile 1xa100 --strict
  runyard explain -f run.yaml -o json | jq '.provenance[] | select(.set_by != "you")'

\b
Exit codes:
  0 would start    1 refused; the table is printed anyway    2 usage error
"""


@click.command(cls=RunCommand, epilog=EXAMPLES)
@add_run_options
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
def explain(output: str, **given: Any) -> None:
    """Show every value of a run, who set it, and what it replaced; then warnings, errors and the verdict.

    Values come from these layers, weakest first: platform default, base template, function, task, you, profile, policy.

    Takes the same options as `runyard render`. Contacts neither a cluster nor a server.
    """
    load("runyard.cli.explanation:print_explanation")(RunOptions(**given), output=output)
