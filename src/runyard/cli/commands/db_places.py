"""`runyard db epoch` and `runyard db place`."""

from typing import Any

import click

from runyard.cli.help_texts import format_epilog
from runyard.cli.lazy_commands import Entry, LazyGroup, load
from runyard.cli.listings import add_listing
from runyard.cli.questions import add_no_input
from runyard.cli.setting_options import DATABASE, add_settings, require_server

LOGS = ("logs", "s3_endpoint", "s3_region")
EPOCH_ENTRIES = {
    "confirm": Entry("runyard.cli.commands.db_places:confirm", "Let the server clean up after a restore."),
}
PLACE_ENTRIES = {
    "list": Entry("runyard.cli.commands.db_places:list_places", "List places, and what belongs to them."),
    "forget": Entry("runyard.cli.commands.db_places:forget", "End all runs of a place that is gone for good."),
}
_YES = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")


@click.group(cls=LazyGroup, entries=EPOCH_ENTRIES)
def epoch() -> None:
    """Restored databases. A restore begins a new epoch, in which the server removes nothing that it finds.

    With SQLite, stop the server first. A server on PostgreSQL may keep running.
    """


@click.group(cls=LazyGroup, entries=PLACE_ENTRIES)
def place() -> None:
    """Places: an engine with the cluster or machine where it executes runs.

    With SQLite, stop the server first. A server on PostgreSQL may keep running.
    """


@click.command(epilog=format_epilog("runyard db epoch confirm --yes"))
@_YES
@add_no_input
@add_settings(DATABASE)
def confirm(yes: bool, **flags: Any) -> None:  # noqa: FBT001
    """Let the server remove objects of ended and deleted runs again, after the database was restored from a backup.

    A restored database does not know what happened after its backup, so the server only lists what it would remove.
    This shows that list, and allows the removal. Objects of unknown runs are never removed. Audited.
    """
    _call("confirm_epoch", flags, is_confirmed=yes)


@click.command(
    name="list",
    epilog=format_epilog(
        "runyard db place list",
        "runyard db place list -o json",
    ),
)
@add_listing("place", "runs", "unsettled", "volumes", "projects", "servers")
@add_settings(DATABASE)
def list_places(listing: Any, **flags: Any) -> None:
    """List the places that runs, volumes and projects belong to, and how many servers serve each.

    UNSETTLED counts runs that have not ended, or whose objects were not cleaned up after the end.
    """
    _call("print_places", flags, listing=listing)


@click.command(epilog=format_epilog("runyard db place forget kubernetes/0c1e6c1c-8f6e-4b0e-9a43-2f5f3f1a7d10 --yes"))
@click.argument("place")
@_YES
@add_no_input
@add_settings((*DATABASE, *LOGS))
def forget(place: str, yes: bool, **flags: Any) -> None:  # noqa: FBT001
    """Forget PLACE, a cluster or machine that is gone for good, with everything that ran there.

    Its runs that have not ended become ERROR (place.forgotten), runs that are being deleted are deleted, and stopped
    services can be resumed elsewhere. Its volumes are lost, and deleted projects no longer wait for it. Refused while a
    live server serves the place. Audited.
    """
    _call("forget_place", flags, place=place, is_confirmed=yes)


def _call(name: str, flags: dict[str, Any], **more: Any) -> None:
    require_server()
    load(f"runyard.cli.places:{name}")(flags, **more)
