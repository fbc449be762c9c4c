"""Implements `runyard project`, `function` and `secret`."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from runyard.cli.client_session import open_session
from runyard.cli.files import get_stdin
from runyard.cli.humane_times import format_age
from runyard.cli.listings import Listing
from runyard.cli.output import clean, print_data, print_note
from runyard.cli.questions import ask_hidden, confirm
from runyard.cli.tables import print_listing
from runyard.sdk.documents import EntityView
from runyard.sdk.errors import AlreadyExists, NotFound
from runyard.sdk.records import Role
from runyard.spec.problems import find_nearest

MOST_SECRET_BYTES = 1 << 20
MOST_LISTED = 1000
OPTIONAL = ("description", "labels", "version", "by")
Flags = Mapping[str, Any]


def print_projects(flags: Flags, *, listing: Listing) -> None:
    """List projects."""
    with open_session(flags) as session:
        found = session.client.list_projects(limit=MOST_LISTED)
    print_entities(found, listing=listing)


def create_project(flags: Flags, *, name: str, description: str | None, labels: Sequence[str]) -> None:
    """Create a project."""
    with open_session(flags) as session:
        try:
            session.client.new_project(name, description=description, labels=list(labels) or None)
        except AlreadyExists:
            raise click.ClickException(f"there is a project {clean(name)} already") from None
    click.echo(f"created: {clean(name)}")


def delete_project(flags: Flags, *, name: str, yes: bool) -> None:
    """Delete a project with everything in it, after a question."""
    with open_session({**flags, "project": name}) as session:
        project = session.get_project()
        if not yes:
            confirm(f"Delete the project {name} and everything in it?")
        project.delete(cascade=True)
    click.echo(f"deleted: {clean(name)}")


def print_members(flags: Flags, *, name: str, listing: Listing) -> None:
    """List the creator and the members of a project."""
    with open_session({**flags, "project": name}) as session:
        project = session.get_project()
        members = [{"user": share.user, "role": share.role} for share in project.list_shares()]
    creator = [{"user": project.user, "role": "owner"}] if project.user else []
    rows = [*creator, *sorted(members, key=lambda member: member["user"])]
    print_listing(listing, rows, data=rows, named="user")


def share_project(flags: Flags, *, name: str, user: str, role: Role) -> None:
    """Give a user a role."""
    with open_session({**flags, "project": name}) as session:
        session.get_project().share(user, role=role)
    click.echo(f"shared: {clean(name)} with {clean(user)} ({role})")


def unshare_project(flags: Flags, *, name: str, user: str) -> None:
    """Take a user's role away; raises with the nearest name if there is no such member."""
    with open_session({**flags, "project": name}) as session:
        project = session.get_project()
        try:
            project.unshare(user)
        except NotFound:
            nearest = find_nearest(user, [share.user for share in project.list_shares()])
            meant = f"did you mean {clean(nearest)}?" if nearest else "`runyard project members` lists them"
            raise click.ClickException(f"{clean(user)} is no member of project {clean(name)}; {meant}") from None
    click.echo(f"no longer shared: {clean(name)} with {clean(user)}")


def print_functions(flags: Flags, *, listing: Listing) -> None:
    """List functions."""
    with open_session(flags) as session:
        found = session.get_project().list_functions(limit=MOST_LISTED)
    print_entities(found, listing=listing)


def print_function(flags: Flags, *, name: str, output: str) -> None:
    """Show the newest version of a function."""
    with open_session(flags) as session:
        print_data(session.get_project().get_function(name).to_dict(), output=output)


def delete_function(flags: Flags, *, name: str, version: str | None, yes: bool) -> None:
    """Delete a version of a function, after a question."""
    with open_session(flags) as session:
        function = session.get_project().get_function(name, id=version)
        if not yes:
            confirm(f"Delete version {function.id} of {name} with its runs?")
        function.delete()
    click.echo(f"deleted: {clean(function.reference)}")


def print_secrets(flags: Flags, *, listing: Listing) -> None:
    """List secrets, without their values."""
    with open_session(flags) as session:
        found = session.get_project().describe_secrets(limit=MOST_LISTED)
    print_entities(found, listing=listing)


def set_secret(flags: Flags, *, name: str, is_piped: bool) -> None:
    """Store a secret."""
    with open_session(flags) as session:
        project = session.get_project()
        project.new_secret(name, _ask_value(is_piped=is_piped))
    click.echo(f"stored: {clean(name)}")
    print_note(f"runs get it as a variable if they name it: `secrets: [{name}]`")


def delete_secret(flags: Flags, *, name: str, yes: bool) -> None:
    """Delete a secret, after a question."""
    with open_session(flags) as session:
        project = session.get_project()
        if not yes:
            confirm(f"Delete the secret {name}?")
        project.delete_secret(name)
    click.echo(f"deleted: {clean(name)}")


def print_entities(found: Sequence[EntityView], *, listing: Listing) -> None:
    """Print entities in a form."""
    now = datetime.now(UTC)
    rows = [_to_row(entity, now=now) for entity in found]
    print_listing(listing, rows, data=[entity.to_dict() for entity in found], optional=OPTIONAL)


def _to_row(entity: EntityView, *, now: datetime) -> Mapping[str, str]:
    metadata = entity.metadata
    return {
        "name": entity.name,
        "kind": entity.kind,
        "created": format_age(str(metadata.get("created", "")), now=now),
        "by": entity.user or "",
        "version": entity.id,
        "updated": format_age(str(metadata.get("updated", "")), now=now),
        "labels": ", ".join(map(str, metadata.get("labels") or ())),
        "description": str(metadata.get("description") or ""),
    }


def _ask_value(*, is_piped: bool) -> str:
    """Read a value from a prompt without echo, or from standard input without its last newline."""
    if is_piped:
        content = get_stdin().buffer.read(MOST_SECRET_BYTES + 1)
        if len(content) > MOST_SECRET_BYTES:
            raise click.UsageError(f"the value has more than {MOST_SECRET_BYTES} bytes")
        try:
            return content.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise click.UsageError("the value on standard input is not UTF-8") from None
    if not get_stdin().isatty():
        raise click.UsageError("no terminal to prompt for the value: use --stdin")
    return ask_hidden("Value", is_repeated=True)
