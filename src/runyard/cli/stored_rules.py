"""Implements `runyard profile` and `policy` where they read what the server has: lists, documents, revisions."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from runyard.cli.client_session import connect, report_errors
from runyard.cli.document_changes import list_changes, to_row
from runyard.cli.findings import print_report
from runyard.cli.humane_times import format_age
from runyard.cli.listings import Listing
from runyard.cli.output import clean, print_data, print_documents, print_note
from runyard.cli.questions import confirm
from runyard.cli.server_problems import to_findings
from runyard.cli.tables import print_listing
from runyard.sdk.errors import NotFound
from runyard.sdk.records import Revision, StoredPolicy, StoredProfile
from runyard.sdk.sync.client import Client
from runyard.spec.problems import find_nearest, shorten

MOST_NAMED = 20
"""Changed fields that a line of the history names."""
Flags = Mapping[str, Any]


def print_profiles(flags: Flags, *, listing: Listing) -> None:
    """List the profiles that runs may use."""
    with report_errors(), connect(flags) as client:
        found = client.describe_profiles()
    now = datetime.now(UTC)
    rows = [
        {
            "name": profile.name,
            "title": profile.title,
            "description": profile.description,
            "revision": str(profile.revision),
            "changed": format_age(profile.time, now=now),
            "by": profile.user,
        }
        for profile in found
    ]
    data = [dict(profile) for profile in found]
    print_listing(listing, rows, data=data, optional=("description", "by", "changed", "revision"))


def print_profile(flags: Flags, *, name: str, revision: int | None, output: str) -> None:
    """Print a profile as it was written, or all of it; raises with the nearest name if it is unknown."""
    with report_errors(), connect(flags) as client:
        try:
            found = client.get_profile(name) if revision is None else client.get_profile_revision(name, revision)
        except NotFound as error:
            raise _explain_profile(client, name, error) from None
    _print_revision(found, output=output)


def print_policy(flags: Flags, *, revision: int | None, output: str) -> None:
    """Print the policy as it was written, or all of it."""
    with report_errors(), connect(flags) as client:
        try:
            found = client.get_policy() if revision is None else client.get_policy_revision(revision)
        except NotFound:
            message = f"the policy has no revision {revision}; `runyard policy history` lists them"
            raise click.ClickException(message) from None
    if isinstance(found, StoredPolicy) and found.is_built_in:
        if output == "file":
            print_note("there is no policy: only the built-in rules apply, which `-o yaml` lists")
            return
        print_data(dict(found), output=output)
        return
    _print_revision(found, output=output)


def print_profile_history(flags: Flags, *, name: str, listing: Listing) -> None:
    """List the revisions of a profile, newest first."""
    with report_errors(), connect(flags) as client:
        try:
            found = client.list_profile_revisions(name)
        except NotFound as error:
            raise _explain_profile(client, name, error) from None
    _print_history(found, listing=listing)


def print_policy_history(flags: Flags, *, listing: Listing) -> None:
    """List the revisions of the policy, newest first."""
    with report_errors(), connect(flags) as client:
        found = client.list_policy_revisions()
    _print_history(found, listing=listing)


def print_profile_changes(flags: Flags, *, name: str, old: int | None, new: int | None, listing: Listing) -> None:
    """List what differs between two revisions of a profile: by default the newest, and the one before it."""
    with report_errors(), connect(flags) as client:
        try:
            newest = new or client.list_profile_revisions(name)[0].revision
            if old is None and newest == 1:
                raise click.ClickException(f"profile {clean(name)} has one revision only")
            before, after = (client.get_profile_revision(name, number) for number in (old or newest - 1, newest))
        except NotFound as error:
            raise _explain_profile(client, name, error) from None
    changes = list_changes(before.document, after.document)
    print_listing(listing, list(map(to_row, changes)), data=changes, named="field")


def delete_profile(flags: Flags, *, name: str, yes: bool) -> None:
    """Delete a profile, after a question."""
    with report_errors(), connect(flags) as client:
        try:
            found = client.get_profile(name)
            if not yes:
                confirm(f"Delete the profile {name} for new runs?")
            client.delete_profile(name, expected_revision=found.revision)
        except NotFound as error:
            raise _explain_profile(client, name, error) from None
    click.echo(f"deleted: {clean(name)}")


def print_problems(found: StoredPolicy | StoredProfile) -> None:
    """Print the server's warnings to standard error."""
    print_report(to_findings(found.problems), ())


def _explain_profile(client: Client, name: str, error: NotFound) -> click.ClickException:
    """The error, with the nearest name if there is no such profile."""
    known = client.list_profiles()
    if name in known:  # it is a revision that is not there
        return click.ClickException(f"{clean(error.message)}; `runyard profile history {clean(name)}` lists them")
    nearest = find_nearest(name, known)
    meant = f"did you mean {nearest}?" if nearest else "`runyard profile ls` lists them"
    return click.ClickException(f"there is no profile {clean(name)}; {meant}")


def _print_revision(found: Revision, *, output: str) -> None:
    if output != "file":
        print_data(dict(found), output=output)
        return
    when = format_age(found.time, now=datetime.now(UTC))
    if found.is_deleted:
        raise click.ClickException(f"revision {found.revision} is a deletion, by {clean(found.user)} {when}")
    document = found.document
    print_documents(document["documents"] if set(document) == {"documents"} else [document])
    print_note(f"revision {found.revision} by {found.user}, {when}")
    if isinstance(found, StoredPolicy | StoredProfile):
        print_problems(found)


def _print_history(found: Sequence[Revision], *, listing: Listing) -> None:
    now = datetime.now(UTC)
    before = [*found[1:], Revision()]
    rows = [
        {
            "revision": str(revision.revision),
            "changed": format_age(revision.time, now=now),
            "by": revision.user,
            "fields": _describe_change(earlier, revision),
            "time": revision.time,
        }
        for revision, earlier in zip(found, before, strict=True)
    ]
    print_listing(listing, rows, data=[dict(revision) for revision in found], named="revision", optional=("time",))


def _describe_change(before: Revision, after: Revision) -> str:
    if after.is_deleted:
        return "deleted"
    if "document" not in before:
        return "created"
    names = [str(change["field"]) for change in list_changes(before.document, after.document)]
    others = [f"and {len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
    return shorten(", ".join([*names[:MOST_NAMED], *others]))
