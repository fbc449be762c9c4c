"""`runyard run`."""

from typing import Any

import click

from runyard.cli.completed_names import complete
from runyard.cli.lazy_commands import load
from runyard.cli.options import ACTIONS, RunCommand, checked
from runyard.cli.server_options import add_project_options
from runyard.spec.names import check_slug

EXAMPLES = """\b
Examples:
  runyard run -f run.yaml
  runyard run -f run.yaml --profile 1xa100 --strict --yes
  runyard run -f run.yaml --dry-run
  runyard run --image busybox:1.36 --yes -- echo hello
  runyard run --function train --detach --yes

\b
Exit codes:
  0 the run completed, or was submitted with --detach, or would start (--dry-run)
  1 refused; nothing was submitted    2 usage error    3 the run failed or was stopped
  130 interrupted; the run goes on
"""


def _read_envs(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    for given in value:
        if not given.partition("=")[1]:
            raise click.BadParameter(f"`{given}` has no `=`; allowed: NAME=VALUE", ctx=ctx, param=param)
    return tuple((given.partition("=")[0], given.partition("=")[2]) for given in value)


@click.command(cls=RunCommand, epilog=EXAMPLES)
@click.option(
    "-f",
    "--file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="Run file, or - for standard input.",
)
@click.option(
    "--function",
    metavar="NAME",
    callback=checked(check_slug),
    shell_complete=complete("function"),
    help="Function that the project has.",
)
@click.option("--image", metavar="IMAGE", help="Container image. Overrides the file.")
@click.option(
    "--profile", metavar="NAME", shell_complete=complete("profile"), help="Profile to use. Overrides the file."
)
@click.option("--action", type=click.Choice(ACTIONS), help="Action. Overrides the file.  [default: the file's, or job]")
@click.option(
    "-e", "--env", "envs", metavar="NAME=VALUE", multiple=True, callback=_read_envs, help="Variable. Repeatable."
)
@click.option(
    "--id", "run_id", metavar="ID", callback=checked(check_slug), help="Run id.  [default: the file's, or random]"
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("-d", "--detach", is_flag=True, help="Print the id of the run and return, without following it.")
@click.option("--dry-run", is_flag=True, help="Show the plan and exit.")
@click.option("--strict", is_flag=True, help="Refuse the run if a value you set would be ignored.")
@add_project_options
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(yes: bool, detach: bool, dry_run: bool, strict: bool, **given: Any) -> None:  # noqa: FBT001 - by name
    """Show what a run will get and who decided it, ask, submit it, and follow its log to the end.

    ARGUMENTS after -- are those of the program; with --image, the first one is the program.

    A file that has `image`, or `source` with the path of a local Python file, defines its function: the server stores
    it, and the same definition is stored once. Other files name a function of the project in `function`.

    The plan is the server's answer. Nothing is stored before you agree, also not the function or a missing project;
    with --dry-run nothing is stored at all.
    """
    flags = {name: given.pop(name) for name in ("project", "context", "endpoint")}
    options = load("runyard.cli.run_definitions:SubmitOptions")(**given)
    load("runyard.cli.run_submission:run")(flags, options, yes=yes, detach=detach, dry_run=dry_run, strict=strict)
