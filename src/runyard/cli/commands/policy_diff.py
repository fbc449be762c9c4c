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
  0 compared, whatever the outcome    1 a file was refused    2 usage error
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
    help="Recorded runs, as YAML documents or a list. Repeatable.",
)
@click.option("--profiles", multiple=True, type=click.Path(exists=True), help="Profiles for both sides. Repeatable.")
@click.option(
    "--new-profiles", multiple=True, type=click.Path(exists=True), help="Profiles for the new side only. Repeatable."
)
@click.option(
    "--project",
    metavar="NAME",
    default="default",
    show_default=True,
    callback=checked(check_project_name),
    help="Project of runs that name none.",
)
@click.option("--all", "show_all", is_flag=True, help="Also list unchanged runs.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
def diff(**given: Any) -> None:
    """Resolve recorded runs under the policies OLD and NEW, and show the difference for each run.

    OLD and NEW are policy files (Runyard's YAML or DigitalHub's settings), or `none` for the built-in policy.

    Runs are run files in any form, or the output of `runyard db export-requests`. Secrets, kept volumes, claims and
    config maps that they name are assumed to exist, so that only policies and profiles make a difference.
    """
    if [given["old"], given["new"], *given["runs"]].count("-") > 1:
        raise click.UsageError("standard input (-) can be read only once")
    load("runyard.cli.rehearsal_report:print_rehearsal")(**given)
