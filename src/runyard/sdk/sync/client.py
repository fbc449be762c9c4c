# Generated from ../aio/client.py by `make sdk`: do not edit.
"""The client: a connection to one server, and its projects."""

from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx2

from runyard.sdk.calls import Call, Json, delete, get, post
from runyard.sdk.credentials import Credentials, find_credentials
from runyard.sdk.documents import Section
from runyard.sdk.errors import AlreadyExists, NotFound
from runyard.sdk.sync.pages import read_pages
from runyard.sdk.sync.project import Project
from runyard.sdk.sync.transport import Transport


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

    def get_project(self, name: str) -> Project:
        """A project by its name. Raises `NotFound`."""
        return Project(self._transport.fetch(get("projects", name)), self._transport)

    def new_project(self, name: str, *, description: str | None = None, labels: list[str] | None = None) -> Project:
        """Create a project. Raises `AlreadyExists`."""
        metadata = {"description": description, "labels": labels}
        known = {field: value for field, value in metadata.items() if value is not None}
        body = {"kind": "project", "name": name, "metadata": known}
        return Project(self._transport.fetch(post("projects", body=body)), self._transport)

    def get_or_create_project(
        self, name: str, *, description: str | None = None, labels: list[str] | None = None
    ) -> Project:
        """A project by its name; creates it if there is none."""
        try:
            return self.get_project(name)
        except NotFound:
            pass
        try:
            return self.new_project(name, description=description, labels=labels)
        except AlreadyExists:  # somebody else was faster, or a repeated request had arrived
            return self.get_project(name)

    def list_projects(self, *, limit: int = 100) -> list[Project]:
        """Projects that are visible to the user."""
        found = read_pages(self._transport, "projects", limit=limit)
        return [Project(document, self._transport) for document in found]

    def delete_project(self, name: str, *, cascade: bool = False) -> None:
        """Delete a project; one that is not empty only with `cascade`."""
        self._transport.fetch(delete("projects", name, cascade="true" if cascade else "false"))

    def list_profiles(self) -> list[str]:
        """The names of the profiles that runs may use."""
        found = self.describe_server()
        return [str(name) for name in found.get("k8s_resource_profiles") or ()]

    def get_profile(self, name: str) -> Section:
        """A profile with its values. Raises `NotFound`."""
        return Section(self._transport.fetch(get("profiles", name)))

    def create_token(self, name: str, *, days: int | None = None) -> Section:
        """Create a personal access token: `id`, `value`, `expires_at`. Needs a sign-in by password."""
        body: Json = {"name": name} if days is None else {"name": name, "days": days}
        return Section(self._transport.fetch(post("tokens", "personal", body=body)))

    def revoke_token(self, token_id: str) -> None:
        """Revoke a personal access token."""
        self._transport.fetch(delete("tokens", "personal", token_id))

    def request(self, method: str, path: str, *, body: Any = None, **query: str | int) -> Any:
        """Any other request of the API: the JSON of its answer. `path` begins with `/api/`."""
        return self._transport.fetch(Call(method=method, path=quote(path, safe="/:@+-._~%"), body=body, query=query))
