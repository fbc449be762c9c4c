"""`runyard db`."""

from typing import Any

import click

from runyard.cli.help_texts import format_epilog
from runyard.cli.lazy_commands import Entry, LazyGroup, load
from runyard.cli.setting_options import DATABASE, add_settings, require_server

PRUNED = (*DATABASE, "keep_runs", "keep_logs", "keep_audit", "logs", "files", "s3_endpoint", "s3_region")
ENTRIES = {
    "status": Entry("runyard.cli.commands.db:status", "Show the schema revision of the database."),
    "upgrade": Entry("runyard.cli.commands.db:upgrade", "Upgrade the database schema to this release."),
    "backup": Entry("runyard.cli.commands.db:backup", "Back up the database to a file; the server may run."),
    "restore": Entry("runyard.cli.commands.db:restore", "Restore a backup into an empty database."),
    "export-requests": Entry(
        "runyard.cli.commands.db:export_requests",
        "Print the stored requests of runs, for `runyard policy diff --runs`.",
    ),
    "prune": Entry("runyard.cli.commands.db:prune", "Delete old runs, logs and audit entries."),
    "epoch": Entry("runyard.cli.commands.db_places:epoch", "After a restore: confirm the clean-up."),
    "place": Entry("runyard.cli.commands.db_places:place", "List clusters that runs belong to; forget one."),
}
EXAMPLES = """\b
Examples:
  runyard db status
  runyard db backup runyard-2026-11-15.db && runyard db upgrade
  runyard db prune --keep-runs 90d --keep-logs 30d --keep-audit 365d

\b
Exit codes:
  0 success    1 failed    2 usage error
"""


@click.group(cls=LazyGroup, entries=ENTRIES, epilog=EXAMPLES)
def db() -> None:
    """Upgrade, back up, restore, export and prune the database."""


@click.command(
    epilog=format_epilog(
        "runyard db status",
        "runyard db status -o json",
        exit_codes="0 usable by this release    1 not usable    2 usage error",
    )
)
@add_settings(DATABASE)
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
def status(output: str, **flags: Any) -> None:
    """Show the schema revision of the database. Exits with 1 if this release cannot use it."""
    _call("print_status", flags, output=output)


@click.command(epilog=format_epilog("runyard db upgrade"))
@add_settings(DATABASE)
def upgrade(**flags: Any) -> None:
    """Upgrade the database schema to this release. Make a backup first."""
    _call("upgrade", flags)


@click.command(epilog=format_epilog("runyard db backup runyard-2026-11-15.db"))
@click.argument("file", type=click.Path(dir_okay=False))
@add_settings(DATABASE)
def backup(file: str, **flags: Any) -> None:
    """Back up the database to a new FILE. The server may be running.

    The backup contains neither the key that encrypts secrets nor the logs of runs.
    """
    _call("backup", flags, file=file)


@click.command(epilog=format_epilog("runyard db restore runyard-2026-11-15.db --data restored"))
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@add_settings(DATABASE)
def restore(file: str, **flags: Any) -> None:
    """Restore the backup FILE into an empty database. An existing database is never overwritten."""
    _call("restore", flags, file=file)


@click.command(
    name="export-requests",
    epilog=format_epilog(
        "runyard db export-requests --since 2026-11-01 > requests.yaml",
        "runyard db export-requests --project demo | runyard policy diff none policy.yaml --runs -",
    ),
)
@click.option("--project", metavar="NAME", help="Only runs of this project.")
@click.option("--since", metavar="TIME", help="Only runs submitted at or after this time, such as 2026-11-01.")
@click.option("--until", metavar="TIME", help="Only runs submitted until this time.")
@add_settings(DATABASE)
def export_requests(project: str | None, since: str | None, until: str | None, **flags: Any) -> None:
    """Print what stored runs asked for, oldest first: YAML documents for `runyard policy diff --runs`.

    Each has the fields that profiles and policies decide about, of the run, its task and its function. Source code,
    parameters and inputs are left out. Secrets are named; their values are not part of a request.

    Only reads. The server may be running.
    """
    _call("export_requests", flags, project=project, since=since, until=until)


@click.command(epilog=format_epilog("runyard db prune --keep-runs 90d --keep-logs 30d --keep-audit 365d"))
@add_settings(PRUNED)
def prune(**flags: Any) -> None:
    """Delete finished runs, logs and audit entries that are older than --keep-runs, --keep-logs and --keep-audit."""
    _call("prune", flags)


def _call(name: str, flags: dict[str, Any], **more: Any) -> None:
    require_server()
    load(f"runyard.cli.databases:{name}")(flags, **more)
