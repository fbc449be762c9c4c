"""`runyard volume`."""

from typing import Any

import click

from runyard.cli.completed_names import complete
from runyard.cli.help_texts import format_epilog
from runyard.cli.lazy_commands import Entry, LazyGroup, load
from runyard.cli.listings import add_listing
from runyard.cli.questions import add_yes
from runyard.cli.server_options import add_project_options

_HERE = "runyard.cli.commands.volume"
ENTRIES = {
    "ls": Entry(f"{_HERE}:volume_ls", "List volumes, and who uses them."),
    "create": Entry(f"{_HERE}:volume_create", "Create a volume that outlives runs."),
    "rm": Entry(f"{_HERE}:volume_rm", "Delete a volume and its data."),
}


@click.group(
    cls=LazyGroup,
    entries=ENTRIES,
    epilog=format_epilog("runyard volume create datasets --size 10Gi", "runyard volume ls"),
)
def volume() -> None:
    """Manage the volumes that a project keeps. Runs mount one as `shared_volume`."""


@click.command(name="ls", epilog=format_epilog("runyard volume ls", "runyard volume ls --columns name,used-by,expires"))
@add_listing(
    *("name", "kind", "size", "state", "used-by", "last-mounted", "expires"),
    more=("storage-class", "by", "run", "claim", "place", "reason", "message"),
)
@add_project_options
def volume_ls(listing: Any, **flags: Any) -> None:
    """List the project's volumes, and the claims of runs that outlive them (`lifetime`)."""
    _call("print_volumes", flags, listing=listing)


@click.command(
    name="create",
    epilog=format_epilog(
        "runyard volume create scratch",
        "runyard volume create models --size 10Gi --storage-class standard",
    ),
)
@click.argument("name", shell_complete=complete("volume"))
@click.option("--size", metavar="SIZE", help="Its size, such as 10Gi.  [default: the policy's]")
@click.option("--storage-class", metavar="NAME", help="Its storage class.  [default: the policy's]")
@add_project_options
def volume_create(name: str, size: str | None, storage_class: str | None, **flags: Any) -> None:
    """Create the volume NAME, within the policy. Neither size nor storage class can be changed later."""
    _call("create_volume", flags, name=name, size=size, storage_class=storage_class)


@click.command(
    name="rm",
    epilog=format_epilog(
        "runyard volume rm datasets --yes", exit_codes="0 deleted    1 refused, such as in use    2 usage error"
    ),
)
@click.argument("name", shell_complete=complete("volume"))
@add_yes
@add_project_options
def volume_rm(name: str, yes: bool, **flags: Any) -> None:  # noqa: FBT001
    """Delete the volume or claim NAME with its data. Refused while a run uses it, or can be resumed with it."""
    _call("delete_volume", flags, name=name, yes=yes)


def _call(function: str, flags: dict[str, Any], **more: Any) -> None:
    load(f"runyard.cli.volumes:{function}")(flags, **more)
