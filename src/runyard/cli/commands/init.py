"""`runyard init`."""

from typing import Any

import click

from runyard.cli.lazy_commands import load
from runyard.cli.questions import add_no_input

ACTIONS = ("job", "serve", "deploy")

EXAMPLES = """\b
Examples:
  runyard init
  runyard init --kind python --code train.py --handler train --python-version PYTHON3_11
  runyard init serve.yaml --action serve --image registry.example.org/model:1 --cpu 2 --mem 8Gi --gpu 1
  runyard init --no-input --profile 1xa100 --project demo --force
  runyard init - --command "sh -c 'echo hello'" | runyard explain -f -

\b
Exit codes:
  0 written    1 refused, such as a FILE that exists    2 usage error    130 interrupted; nothing is written
"""


def _complete_kind(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    kinds = load("runyard.spec.kinds.registry:list_function_kinds")()
    return [kind for kind in kinds if kind.startswith(incomplete)]


@click.command(epilog=EXAMPLES)
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True), metavar="[FILE]", default="run.yaml")
@click.option(
    "--kind",
    metavar="KIND",
    shell_complete=_complete_kind,
    help="What runs: container (the program of an image) or python (a function).",
)
@click.option("--action", type=click.Choice(ACTIONS), help="Run to the end (job), or serve.")
@click.option("--image", metavar="IMAGE", help="Container image.")
@click.option("--command", metavar="TEXT", help="Program and arguments, split as in a shell.")
@click.option("--code", type=click.Path(exists=True, dir_okay=False), help="File with the code of a Python function.")
@click.option("--handler", metavar="NAME", help="Python function to call.  [default: the only one of --code]")
@click.option("--python-version", metavar="VERSION", help="Python version, such as PYTHON3_11.")
@click.option("--requirement", "requirements", metavar="PACKAGE", multiple=True, help="Python package. Repeatable.")
@click.option("--cpu", metavar="AMOUNT", help="CPU cores, such as 2 or 500m.")
@click.option("--mem", metavar="AMOUNT", help="Memory, such as 8Gi.")
@click.option("--gpu", metavar="COUNT", help="Number of GPUs.")
@click.option("--disk", metavar="AMOUNT", help="Scratch space at /shared, such as 10Gi.")
@click.option("--profile", metavar="NAME", help="Profile of your admin.")
@click.option("--project", metavar="NAME", help="Project of the run.")
@click.option("--run-as-user", metavar="ID", help="User id of a container's process; never root.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@add_no_input
def init(file: str, force: bool, **given: Any) -> None:  # noqa: FBT001 - click passes it by name
    """Write a run FILE that works, run.yaml by default; - is standard output.

    On a terminal, asks for what the options do not say. Elsewhere, and with --no-input, defaults are used. An existing
    FILE is kept unless --force is set.
    """
    load("runyard.cli.run_starter:write_run_file")(file, given, is_forced=force)
