"""Implements `runyard db epoch` and `runyard db place`, on the database directly."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from typing import Any

import click

from runyard.app import places
from runyard.app.core import Core
from runyard.app.errors import Missing, NotPossible
from runyard.app.model import Principal
from runyard.app.places import SweepFindings, Verdict
from runyard.app.ports import PlaceUse
from runyard.cli.commands.db_places import LOGS
from runyard.cli.lazy_commands import load
from runyard.cli.listings import Listing
from runyard.cli.output import clean, count_things, print_note
from runyard.cli.questions import can_ask, confirm, is_input_allowed
from runyard.cli.setting_options import DATABASE, load_settings, run_async
from runyard.cli.tables import print_listing
from runyard.cli.users import open_core
from runyard.settings import Settings
from runyard.spec.problems import find_nearest

Flags = Mapping[str, Any]
WHO = Principal(name="system", is_admin=True, via="system", address="command line")
_S3 = ("s3_access_key", "s3_secret_key")


def confirm_epoch(flags: Flags, *, is_confirmed: bool) -> None:
    """Show what a sweep would remove, ask, and allow it."""
    settings = load_settings(flags, only=DATABASE).settings

    async def read() -> tuple[bool, list[SweepFindings]]:
        async with open_core(settings) as core:
            async with core.store.begin(is_read_only=True) as unit:
                is_on = await places.is_sweeper_on(unit)
            known = [use.place for use in await places.list_places(core)]
            return is_on, await places.read_findings(core, known)

    async def confirm() -> None:
        async with open_core(settings) as core:
            await places.confirm_epoch(core, WHO)

    is_on, findings = run_async(read())
    if is_on:
        click.echo("nothing to confirm: the server removes objects of ended and deleted runs already")
        return
    _print_findings(findings)
    _ask("Remove objects of ended and deleted runs from now on?", is_confirmed=is_confirmed)
    run_async(confirm())
    click.echo("confirmed: the server removes objects of ended and deleted runs again, in its next sweep")


def print_places(flags: Flags, *, listing: Listing) -> None:
    """List the places of runs, volumes, projects and servers."""
    settings = load_settings(flags, only=DATABASE).settings

    async def read() -> list[dict[str, Any]]:
        async with open_core(settings) as core:
            return [asdict(use) for use in await places.list_places(core)]

    data = run_async(read())
    rows = [{**{name: str(value) for name, value in use.items()}, "servers": str(use["replicas"])} for use in data]
    print_listing(listing, rows, data=data, named="place")


def forget_place(flags: Flags, *, place: str, is_confirmed: bool) -> None:
    """End all runs of a place that is gone for good."""
    settings = load_settings(flags, only=(*DATABASE, *LOGS, *_S3)).settings

    async def find() -> PlaceUse:
        async with open_core(settings) as core:
            uses = {use.place: use for use in await places.list_places(core)}
        if (use := uses.get(place)) is not None:
            return use
        near = find_nearest(place, list(uses))
        meant = f"did you mean {clean(near)}?" if near else f"known: {clean(', '.join(uses)) or 'none'}"
        raise click.ClickException(f"no run, volume or project belongs to place {clean(place)}; {meant}")

    async def work() -> places.Forgotten:
        async with _open_core_with_logs(settings) as core:
            try:
                return await places.forget_place(core, WHO, place)
            except (Missing, NotPossible) as refused:
                raise click.ClickException(clean(str(refused))) from None

    use = run_async(find())
    things = f"{count_things(use.runs, 'run')}, {count_things(use.volumes, 'volume')}"
    _ask(f"Give up {things} and everything else at {clean(place)}? This cannot be undone.", is_confirmed=is_confirmed)
    done = run_async(work())
    click.echo(f"forgotten: {clean(place)}")
    click.echo(
        f"runs ended: {done.ended}; ended before: {done.released}; deleted: {done.deleted}; "
        f"volumes lost: {done.volumes}; projects: {done.projects}"
    )
    if done.left:
        raise click.ClickException(f"{count_things(done.left, 'run')} could not be changed now: repeat the command")


def _print_findings(findings: list[SweepFindings]) -> None:
    if not findings:
        print_note("no server has swept this database yet, so what it would remove is not known")
    for found in findings:
        removed = [orphan for orphan in found.orphans if orphan.verdict is Verdict.REMOVE]
        click.echo(f"{clean(found.place)}: {count_things(found.count, 'object')} without a run at {clean(found.at)}")
        for orphan in removed:
            click.echo(f"  would remove run {clean(orphan.run_id)} of {clean(orphan.project)}: {clean(orphan.message)}")
        kept = found.count_verdict(Verdict.REPORT)
        click.echo(f"  never removed by the server: {kept}; see GET /api/v1/engine/orphans")


def _ask(question: str, *, is_confirmed: bool) -> None:
    if is_confirmed:
        return
    if is_input_allowed() and not can_ask():
        raise click.UsageError("no terminal to ask: add --yes")
    confirm(question)


@asynccontextmanager
async def _open_core_with_logs(settings: Settings) -> AsyncIterator[Core]:
    logs = load("runyard.logs:open_logs")(
        settings.logs,
        s3_endpoint=settings.s3_endpoint,
        s3_region=settings.s3_region,
        s3_access_key=settings.s3_access_key,
        s3_secret_key=settings.s3_secret_key,
    )
    try:
        async with open_core(settings) as core:
            yield replace(core, logs=logs)
    finally:
        await logs.close()
