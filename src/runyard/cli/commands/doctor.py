"""`runyard doctor`."""

from typing import Any

import click

from runyard.cli.help_texts import format_epilog
from runyard.cli.lazy_commands import load
from runyard.cli.server_options import add_output, add_project_options


@click.command(
    epilog=format_epilog(
        "runyard doctor",
        "runyard doctor --context lab --project demo",
        "runyard doctor -o json | jq '.checks[] | select(.level != \"ok\")'",
        exit_codes="0 nothing is wrong; there may be warnings    1 something is wrong    2 usage error",
    )
)
@add_output("text", "json", "yaml")
@add_project_options
def doctor(output: str, **flags: Any) -> None:
    """Check the way to the server, and the server: one line for each check, with the cure.

    Looks at the configuration and where it comes from, the host, the proxy, the connection, the certificate, the
    clocks, the versions, the sign-in and when it expires, the engine and what it can do, and the project. Changes
    nothing. Checks that depend on one that failed are left out.
    """
    load("runyard.cli.diagnosis_report:print_diagnosis")(flags, output=output)
