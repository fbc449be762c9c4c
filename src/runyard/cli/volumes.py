"""Implements `runyard volume`."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import click

from runyard.cli.client_session import open_session
from runyard.cli.humane_times import format_age
from runyard.cli.listings import Listing
from runyard.cli.output import clean, print_note
from runyard.cli.questions import confirm
from runyard.cli.tables import print_listing
from runyard.sdk.documents import Section
from runyard.sdk.errors import AlreadyExists, NotFound
from runyard.sdk.records import KeptVolume
from runyard.sdk.sync.project import Project
from runyard.spec.figures import format_seconds
from runyard.spec.problems import find_nearest

MOST_LISTED = 1000
OPTIONAL = ("message", "place", "claim", "reason", "run", "by", "storage-class", "last-mounted", "kind")
Flags = Mapping[str, Any]


def print_volumes(flags: Flags, *, listing: Listing) -> None:
    """List volumes, by name."""
    with open_session(flags) as session:
        found = session.get_project().list_volumes(limit=MOST_LISTED)
    now = datetime.now(UTC)
    rows = [_to_row(volume, now=now) for volume in found]
    print_listing(listing, rows, data=[volume.to_dict() for volume in found], optional=OPTIONAL)


def create_volume(flags: Flags, *, name: str, size: str | None, storage_class: str | None) -> None:
    """Create a volume."""
    with open_session(flags) as session:
        try:
            session.get_project().new_volume(name, size=size, storage_class=storage_class)
        except AlreadyExists:
            raise click.ClickException(f"there is a volume {clean(name)} already") from None
    click.echo(f"created: {clean(name)}")
    volume = f"{{volume_type: shared_volume, name: {name}, mount_path: /{name}, spec: {{claim_name: {name}}}}}"
    print_note(f"runs mount it if they name it: `volumes: [{volume}]`")


def delete_volume(flags: Flags, *, name: str, yes: bool) -> None:
    """Delete a volume, after a question; raises with the nearest name if it is unknown."""
    with open_session(flags) as session:
        project = session.get_project()
        _get_volume(project, name)
        if not yes:
            confirm(f"Delete the volume {name} and its data?")
        project.delete_volume(name)
        try:
            left = project.get_volume(name)
        except NotFound:
            click.echo(f"deleted: {clean(name)}")
        else:
            click.echo(f"deleting: {clean(name)} ({clean(str(left.status.get('claim_name') or ''))})")


def _get_volume(project: Project, name: str) -> KeptVolume:
    try:
        return project.get_volume(name)
    except NotFound:
        nearest = find_nearest(name, [volume.name for volume in project.list_volumes(limit=MOST_LISTED)])
        meant = f"did you mean {clean(nearest)}?" if nearest else "`runyard volume ls` lists them"
        raise click.ClickException(f"project {clean(project.name)} has no volume {clean(name)}; {meant}") from None


def _to_row(volume: KeptVolume, *, now: datetime) -> Mapping[str, str]:
    status, spec = volume.status, volume.spec
    owner = status.get("owner") or {}
    users = [str(user.get("id") or user.get("uid")) for user in status.get("in_use_by") or ()]
    others = int(status.get("in_use_count") or 0) - len(users)
    users += [f"and {others} more"] if others > 0 else []
    mounted = status.get("last_mounted_at")
    return {
        "name": volume.name,
        "kind": volume.kind,
        "size": str(status.get("size") or spec.get("size") or ""),
        "state": volume.state,
        "used-by": ", ".join(users),
        "last-mounted": format_age(str(mounted), now=now) if mounted else "",
        "expires": _describe_end(status),
        "storage-class": str(status.get("storage_class") or spec.get("storage_class") or ""),
        "by": str(owner.get("user") or volume.user or ""),
        "run": str(owner.get("run") or ""),
        "claim": str(status.get("claim_name") or ""),
        "place": str(status.get("place") or ""),
        "reason": str(status.get("reason") or ""),
        "message": str(status.get("message") or ""),
    }


def _describe_end(status: Section) -> str:
    """When it is deleted: a time, `never`, or how long after the end of its run."""
    expires, lifetime = status.get("expires_at"), status.get("lifetime")
    if expires:
        return str(expires)
    return f"{format_seconds(lifetime)} after its run" if isinstance(lifetime, int) else "never"
