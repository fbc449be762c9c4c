"""Implements `runyard config-map`."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from runyard.cli.client_session import open_session
from runyard.cli.config_map_files import load_config_data
from runyard.cli.humane_times import format_age
from runyard.cli.listings import Listing
from runyard.cli.output import clean, count_things, print_data, print_note
from runyard.cli.questions import confirm
from runyard.cli.tables import print_listing
from runyard.sdk.errors import AlreadyExists, NotFound
from runyard.sdk.records import ConfigMap
from runyard.sdk.sync.project import Project
from runyard.spec.problems import find_nearest

MOST_LISTED = 1000
Flags = Mapping[str, Any]


def print_config_maps(flags: Flags, *, name: str | None, listing: Listing) -> None:
    """List config maps, or the versions of one."""
    with open_session(flags) as session:
        project = session.get_project()
        found = project.list_config_maps(name=name, limit=MOST_LISTED)
        if name is not None and not found:
            project.get_config_map(name)  # raises with the nearest name
    now = datetime.now(UTC)
    rows = [
        {
            "name": one.name,
            "files": str(len(one.data)),
            "created": format_age(str(one.metadata.get("created", "")), now=now),
            "by": one.user or "",
            "version": one.id,
            "names": ", ".join(one.data),
            "description": str(one.metadata.get("description") or ""),
        }
        for one in found
    ]
    data = [one.to_dict() for one in found]
    print_listing(listing, rows, data=data, optional=("description", "names", "by"))


def print_config_map(flags: Flags, *, name: str, version: str | None, file: str | None, output: str) -> None:
    """Show a version, or print one of its files as it is."""
    with open_session(flags) as session:
        found = session.get_project().get_config_map(name, id=version)
    if file is None:
        print_data(found.to_dict(), output=output)
        return
    if file not in found.data:
        nearest = find_nearest(file, found.data)
        meant = f"did you mean {clean(nearest)}?" if nearest else f"it has: {clean(', '.join(found.data))}"
        raise click.ClickException(f"{clean(found.reference)} has no file {clean(file)}; {meant}")
    click.echo(found.data[file].encode(), nl=False)


def set_config_map(
    flags: Flags,
    *,
    name: str,
    files: Sequence[str],
    literals: Sequence[str],
    version: str | None,
    description: str | None,
) -> None:
    """Store files as a new version, unless the newest one has the same files."""
    data = load_config_data(files=files, literals=literals)
    with open_session(flags) as session:
        project = session.get_project()
        newest = None if version else _find_newest(project, name)
        if newest is not None and newest.data == data:
            click.echo(f"unchanged: {clean(newest.reference)}")
            return
        try:
            stored = project.new_config_map(name, data, id=version, description=description)
        except AlreadyExists:
            raise click.ClickException(f"there is a version {clean(str(version))} already") from None
    click.echo(f"stored: {clean(stored.reference)}")
    volume = f"{{volume_type: config_map, name: {name}, mount_path: /{name}, spec: {{name: {name}}}}}"
    print_note(f"runs mount it if they name it: `volumes: [{volume}]`")


def delete_config_map(flags: Flags, *, name: str, version: str | None, yes: bool) -> None:
    """Delete a config map or one version, after a question."""
    with open_session(flags) as session:
        project = session.get_project()
        found = project.get_config_map(name, id=version)
        if version is None:
            versions = count_things(len(project.list_config_maps(name=name, limit=MOST_LISTED)), "version")
            question, deleted = f"Delete the config map {name} with {versions}?", name
        else:
            question, deleted = f"Delete version {version} of {name}?", found.reference
        if not yes:
            confirm(question)
        project.delete_config_map(name, id=version)
    click.echo(f"deleted: {clean(deleted)}")


def _find_newest(project: Project, name: str) -> ConfigMap | None:
    try:
        return project.get_config_map(name)
    except NotFound:
        return None
