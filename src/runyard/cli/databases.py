"""Implements `runyard db`."""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from runyard.app import retention
from runyard.app.places import is_sweeper_on
from runyard.app.runs import RequestExport, RequestFilter
from runyard.app.times import SystemClock, read_time
from runyard.cli.commands.db import PRUNED
from runyard.cli.lazy_commands import load
from runyard.cli.output import clean, count_things, print_data, print_note
from runyard.cli.run_files import MOST_RUNS_BYTES, MOST_RUNS_DOCUMENTS
from runyard.cli.setting_options import DATABASE, load_settings, run_async, run_sync
from runyard.settings import Settings
from runyard.spec.figures import format_bytes
from runyard.spec.problems import Refused

Flags = Mapping[str, Any]
_NOT_EXPORTED = {
    "local": "left out because their clients execute them",
    "unreadable": "left out because their task or function is gone or can no longer be read",
}
_UNCONFIRMED = "the server removes no objects from its engine until you run `runyard db epoch confirm`"
_S3 = ("s3_access_key", "s3_secret_key")


def print_status(flags: Flags, *, output: str) -> None:
    """Print the schema revision of the database, and whether a restore waits to be confirmed.

    Raises if this release cannot use the database.
    """
    url = _read_url(flags)
    status = run_async(load("runyard.store:read_status")(url))
    is_confirmed = status.state != "current" or run_async(_read_is_confirmed(url))
    if output == "text":
        click.echo(f"database: {clean(status.shown_url)}")
        click.echo(f"state: {status.state}")
        click.echo(f"revision: {status.revision or 'none'} (this release: {status.head})")
        if status.pending:
            click.echo(f"pending: {', '.join(status.pending)}")
        if not is_confirmed:
            click.echo(f"restored: {_UNCONFIRMED}")
    else:
        names = ("shown_url", "state", "revision", "head")
        data = {name: getattr(status, name) for name in names} | {
            "pending": list(status.pending),
            "is_confirmed": is_confirmed,
        }
        print_data({"database": data.pop("shown_url"), **data}, output=output)
    run_sync(status.check_usable)


async def _read_is_confirmed(url: str) -> bool:
    store = await load("runyard.store:open_read_only")(url)
    try:
        async with store.begin(is_read_only=True) as unit:
            return await is_sweeper_on(unit)
    finally:
        await store.close()


def upgrade(flags: Flags) -> None:
    """Migrate the schema to this release."""
    before = run_async(load("runyard.store:upgrade")(_read_url(flags)))
    if before.state == "current":
        click.echo(f"{clean(before.shown_url)} is already at revision {before.head}")
    else:
        click.echo(f"{clean(before.shown_url)} upgraded from revision {before.revision or 'none'} to {before.head}")


def backup(flags: Flags, *, file: str) -> None:
    """Back up the database to a new file."""
    url = _read_url(flags)
    run_async(load("runyard.store:backup")(url, Path(file)))
    click.echo(f"{_show(url)} backed up to {clean(file)}")
    print_note("not in the backup: the logs of runs, and the key that encrypts secrets; back them up separately")


def restore(flags: Flags, *, file: str) -> None:
    """Restore a backup into an empty database."""
    url = _read_url(flags)
    run_async(load("runyard.store:restore")(Path(file), url))
    click.echo(f"{_show(url)} restored from {clean(file)}")
    print_note(f"new epoch: {_UNCONFIRMED}")


def prune(flags: Flags) -> None:
    """Delete runs, logs and audit entries that are older than the retention settings."""
    settings = load_settings(flags, only=(*PRUNED, *_S3)).settings
    if settings.keep_runs is settings.keep_logs is settings.keep_audit is None:
        raise click.UsageError("nothing to delete: set --keep-runs, --keep-logs or --keep-audit")
    pruned = run_async(_prune(settings))
    others = f"{pruned.log_streams} other logs, {pruned.audit_entries} audit entries"
    click.echo(f"deleted: {pruned.runs} runs with their logs, {others}")
    if pruned.left_to_engine:
        left = count_things(pruned.left_to_engine, "run")
        print_note(f"{left} left to the server, which removes their objects from the engine first: DELETING until then")


def export_requests(flags: Flags, *, project: str | None, since: str | None, until: str | None) -> None:
    """Print the stored requests, one JSON document per run, separated as YAML."""
    wanted = RequestFilter(
        project=project, since=_read_time(since, "--since"), until=_read_time(until, "--until") or SystemClock().now()
    )
    counts, size = run_async(_export_requests(_read_url(flags), wanted))
    others = [f"{counts[name]} {reason}" for name, reason in _NOT_EXPORTED.items() if counts[name]]
    print_note(", ".join([f"{count_things(counts['exported'], 'request')} exported", *others]))
    if counts["exported"] > MOST_RUNS_DOCUMENTS or size > MOST_RUNS_BYTES:
        print_note(
            f"`runyard policy diff` reads at most {MOST_RUNS_DOCUMENTS:,} requests and "
            f"{format_bytes(MOST_RUNS_BYTES)} per file: export fewer with --project, --since and --until"
        )


async def _export_requests(url: str, wanted: RequestFilter) -> tuple[Mapping[str, int], int]:
    store = await load("runyard.store:open_read_only")(url)
    export = RequestExport(store, wanted)
    size = 0
    try:
        async for document in export.iter_documents():
            # JSON is YAML; unlike YAML it is written fast.
            text = f"---\n{json.dumps(document, ensure_ascii=True, separators=(', ', ': '))}\n"
            click.echo(text, nl=False)
            size += len(text)
    finally:
        await store.close()
    return export.counts, size


def _read_time(given: str | None, option: str) -> datetime | None:
    if given is None:
        return None
    try:
        return read_time(given)
    except Refused as refused:
        problem = refused.problems[0]
        raise click.UsageError(f"{option}: `{given}` is {problem.message}; allowed: {problem.allowed}") from None


async def _prune(settings: Settings) -> retention.Pruned:
    kept = retention.Retention(runs=settings.keep_runs, logs=settings.keep_logs, audit=settings.keep_audit)
    s3 = {
        "s3_endpoint": settings.s3_endpoint,
        "s3_region": settings.s3_region,
        "s3_access_key": settings.s3_access_key,
        "s3_secret_key": settings.s3_secret_key,
    }
    logs = load("runyard.logs:open_logs")(settings.logs, **s3)
    blobs = load("runyard.files:open_blobs")(settings.files, **s3)
    store = await load("runyard.store:open_store")(settings.database)
    try:
        return await retention.prune(store, logs, kept, now=SystemClock().now(), blobs=blobs)
    finally:
        await store.close()
        await logs.close()
        await blobs.close()


def _show(url: str) -> str:
    return clean(load("runyard.store:show_url")(url))


def _read_url(flags: Flags) -> str:
    return load_settings(flags, only=DATABASE).settings.database
