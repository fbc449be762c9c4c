"""`runyard server`."""

from typing import Any

import click

from runyard.cli.lazy_commands import load
from runyard.cli.setting_options import add_settings, describe_variables, require_server

EXAMPLES = f"""{describe_variables()}

\b
Examples:
  runyard server
  runyard server --port 9000 --profiles profiles/ --policy policy.yaml
  runyard server --host 0.0.0.0 --tls-certificate tls.crt --tls-key tls.key --endpoint https://runyard.example.org
  runyard server --settings /etc/runyard.yaml --check

\b
Exit codes:
  0 ended as told    1 cannot be served    2 wrong settings, a line each
"""


@click.command(epilog=EXAMPLES)
@add_settings()
@click.option("--check", is_flag=True, help="Look at all settings and the files they name, print them, and leave.")
def server(check: bool, **flags: Any) -> None:  # noqa: FBT001 - click passes it by name
    """Serve the API: DigitalHub's, so that its SDK works unchanged, and Runyard's own.

    On a laptop no option is needed: SQLite in the data folder, loopback only, no accounts. Every flag can be given as
    the variable in brackets, or as a line of the settings file.
    """
    require_server()
    load("runyard.cli.server_start:check" if check else "runyard.cli.server_start:serve")(flags)
