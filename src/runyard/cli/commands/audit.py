"""`runyard audit`."""

from typing import Any

import click

from runyard.cli.completed_names import complete
from runyard.cli.help_texts import format_epilog
from runyard.cli.lazy_commands import load
from runyard.cli.listings import UNNAMED_FORM, add_listing
from runyard.cli.options import checked
from runyard.cli.server_options import add_server_options
from runyard.spec.names import check_project_name


@click.command(
    epilog=format_epilog(
        "runyard audit",
        "runyard audit --action policy.put --since 7d",
        "runyard audit --actor ada --project demo --since 2026-11-01 --until 2026-11-15T12:00:00Z",
        "runyard audit -n 1000 -o json | jq -r '.[].action' | sort | uniq -c",
        exit_codes="0 printed    1 refused, such as to users who are no admins    2 usage error",
    )
)
@click.option("--actor", metavar="NAME", help="Only what this user did.")
@click.option("--action", metavar="NAME", help="Only this action, such as policy.put.")
@click.option(
    "-p",
    "--project",
    metavar="NAME",
    callback=checked(check_project_name),
    shell_complete=complete("project"),
    help="Only entries of this project.",
)
@click.option("--since", metavar="TIME", help="Only entries since this time: ISO 8601, or how long ago, such as 2h.")
@click.option("--until", metavar="TIME", help="Only entries until this time, in the same forms.")
@click.option(
    "-n", "--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Most entries to show."
)
@add_listing(
    *("time", "actor", "action", "project", "type", "id", "result"),
    more=("address", "details", "sequence"),
    forms=UNNAMED_FORM,
)
@add_server_options
def audit(listing: Any, **given: Any) -> None:
    """Show who did what, newest first. For admins."""
    flags = {name: given.pop(name) for name in ("context", "endpoint")}
    load("runyard.cli.audit_entries:print_audit")(flags, listing=listing, **given)
