"""`runyard artifact`."""

from typing import Any

import click

from runyard.cli.completed_names import complete
from runyard.cli.help_texts import format_epilog
from runyard.cli.lazy_commands import Entry, LazyGroup, load
from runyard.cli.listings import add_listing
from runyard.cli.server_options import add_project_options

_HERE = "runyard.cli.commands.artifact"
ENTRIES = {
    "ls": Entry(f"{_HERE}:artifact_ls", "List artifacts, data items or models."),
    "put": Entry(f"{_HERE}:artifact_put", "Upload a file or a folder."),
    "get": Entry(f"{_HERE}:artifact_get", "Download the files."),
}
_TYPE = click.option(
    "--type",
    "type_name",
    type=click.Choice(["artifact", "dataitem", "model"]),
    default="artifact",
    show_default=True,
    help="What it is.",
)


@click.group(
    cls=LazyGroup,
    entries=ENTRIES,
    epilog=format_epilog(
        "runyard artifact put readings readings.csv --type dataitem",
        "runyard artifact get readings data/ --type dataitem",
    ),
)
def artifact() -> None:
    """Upload and download the files of artifacts, data items and models, which the server stores."""


@click.command(name="ls", epilog=format_epilog("runyard artifact ls --type model"))
@_TYPE
@add_listing("name", "kind", "created", "by", "version", more=("updated", "labels", "description"))
@add_project_options
def artifact_ls(type_name: str, listing: Any, **flags: Any) -> None:
    """List the newest version of each."""
    load("runyard.cli.artifacts:print_artifacts")(flags, type_name=type_name, listing=listing)


@click.command(name="put", epilog=format_epilog("runyard artifact put readings readings.csv --type dataitem"))
@click.argument("name", shell_complete=complete("stored"))
@click.argument("path", type=click.Path(exists=True))
@_TYPE
@add_project_options
def artifact_put(name: str, path: str, type_name: str, **flags: Any) -> None:
    """Upload the file PATH, or the files of that folder, as a new version of NAME.

    Prints its key, by which runs name it in `inputs`. An upload goes on where it was when the server was away.
    """
    load("runyard.cli.artifacts:put_artifact")(flags, name=name, path=path, type_name=type_name)


@click.command(name="get", epilog=format_epilog("runyard artifact get readings data/ --type dataitem"))
@click.argument("name", shell_complete=complete("stored"))
@click.argument("folder", type=click.Path(file_okay=False), default=".")
@click.option("--id", "version", metavar="ID", help="Version.  [default: the newest]")
@click.option("--overwrite", is_flag=True, help="Replace files that exist.")
@_TYPE
@add_project_options
def artifact_get(name: str, folder: str, version: str | None, overwrite: bool, type_name: str, **flags: Any) -> None:  # noqa: FBT001
    """Download the files of NAME into FOLDER. A download that broke off is continued; digests are checked."""
    load("runyard.cli.artifacts:get_artifact")(
        flags, name=name, folder=folder, version=version, overwrite=overwrite, type_name=type_name
    )
