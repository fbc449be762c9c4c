"""`runyard db`."""

from typing import Any

import click

from runyard.cli.lazy_commands import Entry, LazyGroup, load
from runyard.cli.setting_options import DATABASE, add_settings, require_server

PRUNED = (*DATABASE, "keep_runs", "keep_logs", "keep_audit", "logs", "s3_endpoint", "s3_region")
ENTRIES = {
    "status": Entry("runyard.cli.commands.db:status", "Say at which revision the database is."),
    "upgrade": Entry("runyard.cli.commands.db:upgrade", "Bring the database to this release's tables."),
    "backup": Entry("runyard.cli.commands.db:backup", "Write everything in it to a file, while the server runs."),
    "restore": Entry("runyard.cli.commands.db:restore", "Make the database from a backup."),
    "prune": Entry("runyard.cli.commands.db:prune", "Delete old runs, logs and audit rows."),
}
EXAMPLES = """\b
Examples:
  runyard db status
  runyard db backup /backups/runyard-2026-11-15.db && runyard db upgrade
  RUNYARD_DATABASE=postgresql://runyard@db/new runyard db restore /backups/runyard-2026-11-15.db
  runyard db prune --keep-runs 90d --keep-logs 30d --keep-audit 365d

\b
Exit codes:
  0 done    1 not done, and why    2 wrong use
"""


@click.group(cls=LazyGroup, entries=ENTRIES, epilog=EXAMPLES)
def db() -> None:
    """Look after the database."""


@click.command()
@add_settings(DATABASE)
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
def status(output: str, **flags: Any) -> None:
    """Say at which revision the database is. Ends with 1 where this release cannot use it."""
    _call("print_status", flags, output=output)


@click.command()
@add_settings(DATABASE)
def upgrade(**flags: Any) -> None:
    """Bring the database to this release's tables. Make a backup first."""
    _call("upgrade", flags)


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@add_settings(DATABASE)
def backup(file: str, **flags: Any) -> None:
    """Write everything in the database to a new FILE, while the server runs.

    The key of the secrets and the logs of runs are not in it.
    """
    _call("backup", flags, file=file)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@add_settings(DATABASE)
def restore(file: str, **flags: Any) -> None:
    """Make the database from the backup FILE. Where there is one already, nothing is done."""
    _call("restore", flags, file=file)


@click.command()
@add_settings(PRUNED)
def prune(**flags: Any) -> None:
    """Delete runs that ended, logs and audit rows that are older than the settings say."""
    _call("prune", flags)


def _call(name: str, flags: dict[str, Any], **more: Any) -> None:
    require_server()
    load(f"runyard.cli.databases:{name}")(flags, **more)
