"""`runyard policy diff`."""

from typing import Any

import click

from runyard.cli.lazy_commands import load
from runyard.cli.options import checked
from runyard.spec.names import check_project_name

EXAMPLES = """\b
Examples:
  runyard policy diff policy.yaml tighter.yaml --runs runs.yaml
  runyard policy diff none core.env --runs runs.yaml --runs more.yaml
  runyard policy diff policy.yaml policy.yaml --runs runs.yaml --profiles now/ --new-profiles next/
  runyard policy diff policy.yaml tighter.yaml --runs runs.yaml -o json | jq .summary

\b
Exit codes:
  0 compared, whatever came of it    1 a file was refused    2 wrong use
"""


@click.command(epilog=EXAMPLES)
@click.argument("old", type=click.Path(allow_dash=True))
@click.argument("new", type=click.Path(allow_dash=True))
@click.option(
    "--runs",
    required=True,
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="Runs, as several documents or a list. May be repeated.",
)
@click.option("--profiles", multiple=True, type=click.Path(exists=True), help="Profiles of both sides.")
@click.option("--new-profiles", multiple=True, type=click.Path(exists=True), help="Profiles of the new side instead.")
@click.option(
    "--project",
    metavar="NAME",
    default="default",
    show_default=True,
    callback=checked(check_project_name),
    help="Of runs that name none.",
)
@click.option("--all", "show_all", is_flag=True, help="Show unchanged runs too, not only their number.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
def diff(**given: Any) -> None:
    """Play recorded runs against the policies OLD and NEW, and say what would become of each.

    OLD and NEW are policies (Runyard's YAML or DigitalHub's settings), or `none` for the built-in policy alone.

    Runs are run files in any of their forms. What they name and only a server knows (secrets, kept volumes, claims,
    config maps) is taken to exist, so that nothing but the policies and profiles makes a difference.
    """
    if [given["old"], given["new"], *given["runs"]].count("-") > 1:
        raise click.UsageError("standard input (-) can be read only once")
    load("runyard.cli.rehearsal_report:print_rehearsal")(**given)
