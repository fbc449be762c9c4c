# Generated from ../aio/client.py by `make sdk`: do not edit.
"""The client: a connection to one server, and its projects."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx2

from runyard.sdk.calls import Call, Json, delete, get, post, put, select
from runyard.sdk.checks import Check
from runyard.sdk.credentials import Credentials, find_credentials
from runyard.sdk.documents import Section
from runyard.sdk.errors import AlreadyExists, NotFound
from runyard.sdk.function_specs import draft_function, make_function_spec
from runyard.sdk.html_tables import Listing
from runyard.sdk.records import (
    AuditEntry,
    CreatedToken,
    Rehearsal,
    Revision,
    StoredPolicy,
    StoredProfile,
    Token,
)
from runyard.sdk.sync.diagnosis import diagnose
from runyard.sdk.sync.pages import read_pages
from runyard.sdk.sync.project import Project
from runyard.sdk.sync.project_files import make_metadata
from runyard.sdk.sync.run_draft import RunDraft
from runyard.sdk.sync.transport import Transport

REHEARSAL_SECONDS = 600.0
"""How long a rehearsal of 10,000 runs may take."""
DEFAULT_PROJECT = "default"


class Client:
    """A connection to one server; a context manager.

    Without arguments, endpoint and credentials come from the environment, the contexts of `runyard login`, or
    DigitalHub's configuration, in this order. `transport` is the seam for tests: any transport of httpx2.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        token: str | None = None,
        user: str | None = None,
        password: str | None = None,
        context: str | None = None,
        transport: httpx2.BaseTransport | None = None,
        timeout: float = 30.0,
        retry_seconds: float = 10.0,
        follow_seconds: float = 300.0,
    ) -> None:
        found = find_credentials(endpoint=endpoint, token=token, user=user, password=password, context=context)
        self._transport = Transport(
            found, transport=transport, timeout=timeout, retry_seconds=retry_seconds, follow_seconds=follow_seconds
        )

    @property
    def credentials(self) -> Credentials:
        """The endpoint, how this client signs in, and where both were found."""
        return self._transport.credentials

    @property
    def endpoint(self) -> str:
        """The address of the server."""
        return self.credentials.endpoint

    def close(self) -> None:
        """Close all connections. Idempotent."""
        self._transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def whoami(self) -> Section:
        """Who the server takes this client for: `username` and `permissions`."""
        return Section(self._transport.fetch(Call(method="GET", path="/api/auth")))

    def describe_server(self) -> Section:
        """The public description of the server: version, ways to sign in, names of profiles."""
        return Section(self._transport.fetch(Call(method="GET", path="/.well-known/configuration")))

    def diagnose(self, project: str | None = None) -> Iterator[Check]:
        """Check the way to the server, the sign-in and the server, step by step. Changes nothing; raises nothing.

        Without `project`, that of the credentials, or `default`.
        """
        named = project or self.credentials.project
        return diagnose(self._transport, project=named or DEFAULT_PROJECT, is_project_named=named is not None)

    def get_project(self, name: str) -> Project:
        """A project by its name. Raises `NotFound`."""
        return Project(self._transport.fetch(get("projects", name)), self._transport)

    def new_project(self, name: str, *, description: str | None = None, labels: list[str] | None = None) -> Project:
        """Create a project. Raises `AlreadyExists`."""
        call = _make_project_call(name, description, labels)
        return Project(self._transport.fetch(call), self._transport)

    def get_or_create_project(
        self, name: str, *, description: str | None = None, labels: list[str] | None = None
    ) -> Project:
        """A project by its name; creates it if there is none."""
        try:
            return self.get_project(name)
        except NotFound:
            pass
        call = replace(_make_project_call(name, description, labels), is_safe_to_repeat=True)
        try:
            return Project(self._transport.fetch(call), self._transport)
        except AlreadyExists:  # somebody else was faster, or a repeated request had arrived
            return self.get_project(name)

    def draft_run(
        self,
        project: str,
        name: str,
        kind: str,
        *,
        function: Mapping[str, Any],
        spec: Mapping[str, Any],
        action: str = "job",
        folder: Path | None = None,
    ) -> RunDraft:
        """A run of a function that may not be stored, in a project that may not exist. Sends nothing yet.

        `function` has arguments of `new_function`, of which the function's id is made; `spec` those of the run, which
        the server checks. Paths of code are relative to `folder`.
        """
        document = draft_function(project, name, kind, make_function_spec(kind, function, folder=folder))
        return RunDraft(self._transport, document, action=action, spec=dict(spec), is_stored=False)

    def list_projects(self, *, limit: int = 100) -> list[Project]:
        """Projects that are visible to the user."""
        found = read_pages(self._transport, "projects", limit=limit)
        return Listing(Project(document, self._transport) for document in found)

    def delete_project(self, name: str, *, cascade: bool = False) -> None:
        """Delete a project; one that is not empty only with `cascade`."""
        self._transport.fetch(delete("projects", name, cascade="true" if cascade else "false"))

    def list_profiles(self) -> list[str]:
        """The names of the profiles that runs may use."""
        found = self.describe_server()
        return Listing(str(name) for name in found.get("k8s_resource_profiles") or ())

    def describe_profiles(self) -> list[StoredProfile]:
        """The profiles that runs may use, with their documents, by name."""
        return [StoredProfile(found) for found in self._transport.fetch(get("profiles"))]

    def get_profile(self, name: str) -> StoredProfile:
        """A profile with its values. Raises `NotFound`."""
        return StoredProfile(self._transport.fetch(get("profiles", name)))

    def put_profile(
        self, name: str, document: Json, *, expected_revision: int | None = None, strict: bool = False
    ) -> StoredProfile:
        """Create or replace a profile; an unchanged document adds no revision. For admins.

        `expected_revision` is the one it replaces, 0 for none; raises `Conflict` if there is another. With `strict`,
        what contradicts the policy is refused.
        """
        call = put(
            "profiles", name, body=document, expected_revision=expected_revision, strict="true" if strict else None
        )
        return StoredProfile(self._transport.fetch(call))

    def delete_profile(self, name: str, *, expected_revision: int | None = None) -> None:
        """Delete a profile for new runs; its revisions stay. For admins."""
        self._transport.fetch(delete("profiles", name, expected_revision=expected_revision))

    def list_profile_revisions(self, name: str) -> list[Revision]:
        """Every revision of a profile, newest first, with deletions. For admins."""
        return [Revision(found) for found in self._transport.fetch(get("profiles", name, "revisions"))]

    def get_profile_revision(self, name: str, revision: int) -> Revision:
        """One revision of a profile. For admins."""
        return Revision(self._transport.fetch(get("profiles", name, "revisions", str(revision))))

    def get_policy(self) -> StoredPolicy:
        """The policy: for admins all of it, for others without the rules of projects that they do not see."""
        return StoredPolicy(self._transport.fetch(get("policy")))

    def put_policy(self, document: Json, *, expected_revision: int | None = None, strict: bool = False) -> StoredPolicy:
        """Replace the policy for future runs; an unchanged document adds no revision. For admins.

        `expected_revision` is the one it replaces, 0 for none; raises `Conflict` if there is another. With `strict`,
        rules without effect, and profiles that the policy contradicts, are refused.
        """
        call = put("policy", body=document, expected_revision=expected_revision, strict="true" if strict else None)
        return StoredPolicy(self._transport.fetch(call))

    def delete_policy(self, *, expected_revision: int | None = None) -> None:
        """Delete the policy: only the built-in rules remain. For admins."""
        self._transport.fetch(delete("policy", expected_revision=expected_revision))

    def list_policy_revisions(self) -> list[Revision]:
        """Every revision of the policy, newest first, with deletions. For admins."""
        return [Revision(found) for found in self._transport.fetch(get("policy", "revisions"))]

    def get_policy_revision(self, revision: int) -> Revision:
        """One revision of the policy. For admins."""
        return Revision(self._transport.fetch(get("policy", "revisions", str(revision))))

    def rehearse(
        self,
        *,
        has_policy: bool = False,
        policy: Json | None = None,
        profiles: Mapping[str, Json | None] | None = None,
        since: str | None = None,
        until: str | None = None,
        project: str | None = None,
        limit: int | None = None,
    ) -> Rehearsal:
        """Resolve the newest runs of the past with another policy, or other profiles, and change nothing. For admins.

        A `policy` replaces the current one; `has_policy` without one stands for the built-in rules. `profiles` are
        added to the current ones; None removes one. Times are in ISO 8601.
        """
        body: Json = {**select({"since": since, "until": until, "project": project, "limit": limit})}
        body |= {"policy": policy} if has_policy or policy is not None else {}
        body |= {"profiles": dict(profiles)} if profiles else {}
        call = replace(post("policy", "rehearse", body=body), read_seconds=REHEARSAL_SECONDS)
        return Rehearsal(self._transport.fetch(call))

    def iter_audit(
        self,
        *,
        project: str | None = None,
        actor: str | None = None,
        action: str | None = None,
        since: str | None = None,
        until: str | None = None,
        page_size: int = 100,
    ) -> Iterator[AuditEntry]:
        """The entries of the audit, newest first, page by page. For admins. Times are in ISO 8601."""
        before: int | None = None
        chosen = {"project": project, "actor": actor, "action": action, "since": since, "until": until}
        while True:
            page = self._transport.fetch(get("audit", **chosen, before=before, limit=page_size))
            entries = page.get("entries") or ()
            for entry in entries:
                yield AuditEntry(entry)
            before = page.get("next")
            if before is None or not entries:
                return

    def list_tokens(self) -> list[Token]:
        """The user's personal access tokens, newest first, without their texts."""
        return [Token(found) for found in self._transport.fetch(get("tokens", "personal"))]

    def create_token(self, name: str, *, scopes: Sequence[str] = (), days: int | None = None) -> CreatedToken:
        """Create a personal access token, whose text is `value`. Needs a sign-in by password.

        `scopes` are `read`, `write` and `admin`; without them it may do what the user may. `days` is how long it is
        valid; None: as long as the server allows.
        """
        body: Json = {"name": name, "scopes": list(scopes), **({} if days is None else {"days": days})}
        return CreatedToken(self._transport.fetch(post("tokens", "personal", body=body)))

    def revoke_token(self, token_id: str) -> None:
        """Revoke a personal access token."""
        self._transport.fetch(delete("tokens", "personal", token_id))

    def request(self, method: str, path: str, *, body: Any = None, **query: str | int) -> Any:
        """Any other request of the API: the JSON of its answer. `path` begins with `/api/`."""
        return self._transport.fetch(Call(method=method, path=quote(path, safe="/:@+-._~%"), body=body, query=query))


def _make_project_call(name: str, description: str | None, labels: list[str] | None) -> Call:
    return post("projects", body={"kind": "project", "name": name, "metadata": make_metadata(description, labels)})
