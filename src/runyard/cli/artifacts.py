"""Implements `runyard artifact`."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from runyard.cli.client_session import open_session
from runyard.cli.listings import Listing
from runyard.cli.output import clean
from runyard.cli.project_things import MOST_LISTED, print_entities
from runyard.cli.transfer_output import show_transfer
from runyard.sdk.errors import ArgumentError
from runyard.sdk.sync.stored_files import StoredType

Flags = Mapping[str, Any]


def print_artifacts(flags: Flags, *, type_name: StoredType, listing: Listing) -> None:
    """List the newest version of each."""
    with open_session(flags) as session:
        found = session.get_project().list_stored(type_name, limit=MOST_LISTED)
    print_entities(found, listing=listing)


def put_artifact(flags: Flags, *, name: str, path: str, type_name: StoredType) -> None:
    """Upload a file or a folder; prints the key of the new version."""
    with open_session(flags) as session:
        project = session.get_project()
        log: Mapping[str, Callable[..., Any]] = {
            "artifact": project.log_artifact,
            "dataitem": project.log_dataitem,
            "model": project.log_model,
        }
        with show_transfer() as on_progress:
            stored = log[type_name](name, path, on_progress=on_progress)
        click.echo(clean(stored.key))


def get_artifact(
    flags: Flags, *, name: str, folder: str, version: str | None, overwrite: bool, type_name: StoredType
) -> None:
    """Download the files; prints the file or the folder."""
    with open_session(flags) as session:
        project = session.get_project()
        find: Mapping[str, Callable[..., Any]] = {
            "artifact": project.get_artifact,
            "dataitem": project.get_dataitem,
            "model": project.get_model,
        }
        try:
            entity = find[type_name](name, id=version)
            with show_transfer() as on_progress:
                found = entity.download(folder, overwrite=overwrite, on_progress=on_progress)
        except ArgumentError as error:
            raise click.ClickException(clean(str(error).replace("overwrite=True", "--overwrite"))) from None
    click.echo(clean(str(found)))
