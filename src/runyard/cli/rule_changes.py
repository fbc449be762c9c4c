"""Implements `apply` and `rehearse` of `runyard policy` and `profile`: show, rehearse, ask, apply."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import click

from runyard.cli.client_session import connect, report_errors
from runyard.cli.document_changes import HEAD, list_changes, to_row
from runyard.cli.findings import print_warnings
from runyard.cli.humane_times import read_time_option
from runyard.cli.output import clean, count_things, print_data, print_note
from runyard.cli.policies import load_policy
from runyard.cli.profile_files import load_profile_documents
from runyard.cli.questions import confirm
from runyard.cli.rehearsal_report import BUILT_IN_ALONE, check_exists
from runyard.cli.rehearsal_tables import DIRECTIONS, iter_causes, print_rehearsed, summarise
from runyard.cli.stored_rules import print_problems
from runyard.cli.tables import print_table
from runyard.sdk.errors import NotFound
from runyard.sdk.records import Rehearsal, StoredProfile
from runyard.sdk.sync.client import Client

Flags = Mapping[str, Any]
Document = Mapping[str, Any]
FILES = "files"
"""The author of revisions that a server read from files (`app.rules.rule_files.FILES`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Which runs of the past are rehearsed."""

    since: str | None = None
    until: str | None = None
    project: str | None = None
    limit: int | None = None

    def to_arguments(self) -> dict[str, Any]:
        """Arguments of `Client.rehearse`; raises `UsageError`."""
        since, until = read_time_option("--since", self.since), read_time_option("--until", self.until)
        return {"since": since, "until": until, "project": self.project, "limit": self.limit}


def rehearse(flags: Flags, *, file: str | None, profiles: Sequence[str], output: str, **span: Any) -> None:
    """Print what a policy, profiles or both would change in runs of the past."""
    if file is None and not profiles:
        raise click.UsageError("nothing to rehearse: name a policy FILE, or use --profiles")
    arguments = Span(**span).to_arguments()
    arguments |= {} if file is None else {"has_policy": True, "policy": _load_policy(file)}
    documents, warnings = load_profile_documents(profiles)
    print_warnings(warnings)
    with report_errors(), connect(flags) as client:
        found = client.rehearse(profiles=documents, **arguments)
    if output != "table":
        print_data(dict(found), output=output)
        return
    _print_rehearsal(found, is_answer=True)


def apply_policy(
    flags: Flags, *, file: str, yes: bool, is_dry: bool, is_strict: bool, is_rehearsed: bool, **span: Any
) -> None:
    """Make a file the policy of the server: show what changes, rehearse, ask, apply."""
    arguments = Span(**span).to_arguments()
    policy = _load_policy(file)
    with report_errors(), connect(flags) as client:
        current = client.get_policy()
        if policy == current.document if policy is not None else current.is_built_in:
            click.echo(
                f"unchanged: revision {current.revision}" if current.revision else "unchanged: there is no policy"
            )
            return
        rehearsal = client.rehearse(has_policy=True, policy=policy, **arguments) if is_rehearsed else None
        _print_plan({"policy": list_changes(current.document, policy or {})}, rehearsal)
        if is_dry:
            return
        if not yes:
            confirm("Delete the policy?" if policy is None else "Apply it?")
        if policy is None:
            client.delete_policy(expected_revision=current.revision)
            click.echo("deleted: the policy; only the built-in rules remain")
            return
        applied = client.put_policy(policy, expected_revision=current.revision, strict=is_strict)
    print_problems(applied)
    click.echo(f"applied: policy, revision {applied.revision}")
    _warn_of_files(current.get("user"))


def check_profiles(files: Sequence[str]) -> None:
    """Print the warnings about profile files and a summary; raises `Failed` with their errors."""
    documents, warnings = load_profile_documents(files)
    print_warnings(warnings)
    click.echo(f"ok: {count_things(len(documents), 'profile')}: {clean(', '.join(sorted(documents)))}")


def apply_profiles(
    flags: Flags,
    *,
    files: Sequence[str],
    yes: bool,
    is_dry: bool,
    is_strict: bool,
    is_rehearsed: bool,
    **span: Any,
) -> None:
    """Create and replace profiles of the server: show what changes, rehearse, ask, apply one after the other."""
    arguments = Span(**span).to_arguments()
    documents, warnings = load_profile_documents(files)
    print_warnings(warnings)
    with report_errors(), connect(flags) as client:
        stored = {profile.name: profile for profile in client.describe_profiles()}
        changed = {
            name: each for name, each in documents.items() if name not in stored or each != stored[name].document
        }
        same = sorted(documents.keys() - changed.keys())
        if same:
            click.echo(f"unchanged: {clean(', '.join(same))}")
        if not changed:
            return
        rehearsal = client.rehearse(profiles=changed, **arguments) if is_rehearsed else None
        _print_plan({name: _compare(stored.get(name), document) for name, document in changed.items()}, rehearsal)
        if is_dry:
            return
        if not yes:
            confirm(f"Apply {', '.join(changed)}?")
        for name, document in changed.items():
            revision = stored[name].revision if name in stored else _find_last_revision(client, name)
            applied = client.put_profile(name, document, expected_revision=revision, strict=is_strict)
            print_problems(applied)
            click.echo(f"applied: {clean(name)}, revision {applied.revision}")
        _warn_of_files(*(stored[name].user for name in changed if name in stored))


def _load_policy(file: str) -> dict[str, Any] | None:
    """The document of a policy file; None is the built-in policy. Prints warnings; raises `Failed`."""
    if file == BUILT_IN_ALONE:
        return None
    loaded = load_policy(check_exists(file))
    print_warnings(loaded.warnings)
    if loaded.is_settings:
        message = f"{file}: has DigitalHub's settings, and a server takes only a policy in Runyard's form"
        raise click.ClickException(f"{message}: write its rules as YAML; docs/admins/profiles-and-policy.md has them")
    return dict(loaded.document)


def _compare(stored: StoredProfile | None, document: Document) -> list[dict[str, Any]]:
    return list_changes({} if stored is None else stored.document, document)


def _warn_of_files(*authors: str | None) -> None:
    """Say that a server with --profiles or --policy reads its files again when it starts."""
    if FILES in authors:
        print_note("the server read it from its files, and does so again when it starts: change the files as well")


def _find_last_revision(client: Client, name: str) -> int:
    """The number of the deletion, if there was a profile of that name."""
    try:
        return client.list_profile_revisions(name)[0].revision
    except NotFound:
        return 0


def _print_plan(changes: Mapping[str, Sequence[Mapping[str, Any]]], rehearsal: Rehearsal | None) -> None:
    """Print the fields that change, and the rehearsal, to standard error."""
    rows = [
        (clean(name), *(clean(cell) for cell in to_row(change).values()))
        for name, each in changes.items()
        for change in each
    ]
    print_table(("of", *HEAD), rows, is_answer=False)
    click.echo(err=True)
    if rehearsal is not None:
        _print_rehearsal(rehearsal, is_answer=False)


def _print_rehearsal(found: Rehearsal, *, is_answer: bool) -> None:
    print_rehearsed(found.runs, is_answer=is_answer)
    directed = sum(found.counts.get(direction, 0) for direction in DIRECTIONS)
    counts = {**found.counts, "changed": found.counts.get("changed", 0) - directed}
    rehearsed = sum(counts.values())
    lines = [f"rehearsed {count_things(rehearsed, 'run')}: {summarise(counts)}" if rehearsed else "no runs to rehearse"]
    for line in chain(lines, iter_causes(found.refused_by_both)):
        click.echo(line, err=not is_answer)
    if found.left_out:
        print_note(f"{count_things(found.left_out, 'more run')} of these are not listed")
    if found.total > rehearsed:
        print_note(f"there are {found.total} runs, and the newest {rehearsed} were rehearsed: use --limit for more")
