"""`runyard server`."""

from typing import Any

import click

from runyard.cli.lazy_commands import Entry, LazyGroup, load
from runyard.cli.setting_options import add_settings, describe_variables, require_server

EXAMPLES = f"""{describe_variables()}

\b
Examples:
  runyard server
  runyard server --port 9000 --profiles profiles/ --policy policy.yaml
  runyard server --host 0.0.0.0 --tls-certificate tls.crt --tls-key tls.key --endpoint https://runyard.example.org
  runyard server --settings runyard.yaml --check

\b
Exit codes:
  0 stopped by a signal    1 cannot start    2 usage error or wrong settings, one line each
"""


ENTRIES = {"rbac": Entry("runyard.cli.commands.server_rbac:rbac", "Print the rights that the server needs.")}


@click.group(cls=LazyGroup, entries=ENTRIES, epilog=EXAMPLES, invoke_without_command=True)
@add_settings()
@click.option("--check", is_flag=True, help="Check all settings and the files they name, print them, and exit.")
@click.pass_context
def server(context: click.Context, /, check: bool, **flags: Any) -> None:  # noqa: FBT001 - click passes it by name
    """Start the API server.

    It serves DigitalHub's API, so that the `digitalhub` SDK works unchanged, and Runyard's own. Without options it uses
    SQLite in the data directory and listens on loopback. Clients must sign in if the database has accounts; without
    accounts, every program on this machine is an admin.

    Every flag can also be set by the variable in brackets or in the settings file. Precedence: flags, variables,
    settings file, defaults.
    """
    if context.invoked_subcommand is not None:
        _refuse_options(context)
        return
    require_server()
    load("runyard.cli.server_start:check" if check else "runyard.cli.server_start:serve")(flags)


def _refuse_options(context: click.Context) -> None:
    """Refuse options before a subcommand, which has options of its own."""
    source = click.core.ParameterSource.COMMANDLINE
    given = [one for one in context.command.params if context.get_parameter_source(one.name or "") is source]
    if given:
        listed = ", ".join(f"`{one.opts[0]}`" for one in given)
        name = context.invoked_subcommand
        raise click.UsageError(
            f"{listed} before `{name}` would have no effect: write the options of `{name}` after it; "
            f"`runyard server {name} --help` lists them"
        )
