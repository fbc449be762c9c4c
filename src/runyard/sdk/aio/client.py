"""The client: a connection to one server, and its projects."""

from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx2

from runyard.sdk.aio.pages import read_pages
from runyard.sdk.aio.project import AsyncProject
from runyard.sdk.aio.transport import AsyncTransport
from runyard.sdk.calls import Call, Json, delete, get, post
from runyard.sdk.credentials import Credentials, find_credentials
from runyard.sdk.documents import Section
from runyard.sdk.errors import AlreadyExists, NotFound


class AsyncClient:
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
        transport: httpx2.AsyncBaseTransport | None = None,
        timeout: float = 30.0,
        retry_seconds: float = 10.0,
        follow_seconds: float = 300.0,
    ) -> None:
        found = find_credentials(endpoint=endpoint, token=token, user=user, password=password, context=context)
        self._transport = AsyncTransport(
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

    async def aclose(self) -> None:
        """Close all connections. Idempotent."""
        await self._transport.aclose()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def whoami(self) -> Section:
        """Who the server takes this client for: `username` and `permissions`."""
        return Section(await self._transport.fetch(Call(method="GET", path="/api/auth")))

    async def describe_server(self) -> Section:
        """The public description of the server: version, ways to sign in, names of profiles."""
        return Section(await self._transport.fetch(Call(method="GET", path="/.well-known/configuration")))

    async def get_project(self, name: str) -> AsyncProject:
        """A project by its name. Raises `NotFound`."""
        return AsyncProject(await self._transport.fetch(get("projects", name)), self._transport)

    async def new_project(
        self, name: str, *, description: str | None = None, labels: list[str] | None = None
    ) -> AsyncProject:
        """Create a project. Raises `AlreadyExists`."""
        metadata = {"description": description, "labels": labels}
        known = {field: value for field, value in metadata.items() if value is not None}
        body = {"kind": "project", "name": name, "metadata": known}
        return AsyncProject(await self._transport.fetch(post("projects", body=body)), self._transport)

    async def get_or_create_project(
        self, name: str, *, description: str | None = None, labels: list[str] | None = None
    ) -> AsyncProject:
        """A project by its name; creates it if there is none."""
        try:
            return await self.get_project(name)
        except NotFound:
            pass
        try:
            return await self.new_project(name, description=description, labels=labels)
        except AlreadyExists:  # somebody else was faster, or a repeated request had arrived
            return await self.get_project(name)

    async def list_projects(self, *, limit: int = 100) -> list[AsyncProject]:
        """Projects that are visible to the user."""
        found = await read_pages(self._transport, "projects", limit=limit)
        return [AsyncProject(document, self._transport) for document in found]

    async def delete_project(self, name: str, *, cascade: bool = False) -> None:
        """Delete a project; one that is not empty only with `cascade`."""
        await self._transport.fetch(delete("projects", name, cascade="true" if cascade else "false"))

    async def list_profiles(self) -> list[str]:
        """The names of the profiles that runs may use."""
        found = await self.describe_server()
        return [str(name) for name in found.get("k8s_resource_profiles") or ()]

    async def get_profile(self, name: str) -> Section:
        """A profile with its values. Raises `NotFound`."""
        return Section(await self._transport.fetch(get("profiles", name)))

    async def create_token(self, name: str, *, days: int | None = None) -> Section:
        """Create a personal access token: `id`, `value`, `expires_at`. Needs a sign-in by password."""
        body: Json = {"name": name} if days is None else {"name": name, "days": days}
        return Section(await self._transport.fetch(post("tokens", "personal", body=body)))

    async def revoke_token(self, token_id: str) -> None:
        """Revoke a personal access token."""
        await self._transport.fetch(delete("tokens", "personal", token_id))

    async def request(self, method: str, path: str, *, body: Any = None, **query: str | int) -> Any:
        """Any other request of the API: the JSON of its answer. `path` begins with `/api/`."""
        return await self._transport.fetch(
            Call(method=method, path=quote(path, safe="/:@+-._~%"), body=body, query=query)
        )
