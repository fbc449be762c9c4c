"""A project: its functions, runs and secrets."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Unpack
from uuid import uuid4

from runyard.sdk.aio.function import AsyncFunction
from runyard.sdk.aio.pages import read_pages
from runyard.sdk.aio.run import AsyncRun
from runyard.sdk.aio.transport import AsyncTransport
from runyard.sdk.arguments import FunctionArguments
from runyard.sdk.calls import Json, delete, get, post, put
from runyard.sdk.documents import EntityView
from runyard.sdk.errors import AlreadyExists, NotFound
from runyard.sdk.function_specs import DEFAULT_KIND, make_content_id, make_function_spec
from runyard.spec.problems import find_nearest

MOST_LISTED = 100


class AsyncProject(EntityView):
    """A project."""

    _type = "project"

    def __init__(self, document: Json, transport: AsyncTransport) -> None:
        super().__init__(document)
        self._transport = transport

    async def refresh(self) -> "AsyncProject":
        """Read it again."""
        self._document = await self._transport.fetch(get("projects", self.name))
        return self

    async def delete(self, *, cascade: bool = False) -> None:
        """Delete it; a project that is not empty only with `cascade`, which stops and deletes its runs."""
        await self._transport.fetch(delete("projects", self.name, cascade="true" if cascade else "false"))

    async def new_function(
        self,
        name: str,
        kind: str = DEFAULT_KIND,
        *,
        id: str | None = None,  # noqa: A002 - the API's name
        description: str | None = None,
        labels: list[str] | None = None,
        **arguments: Unpack[FunctionArguments],
    ) -> AsyncFunction:
        """Create a version of a function.

        Code is given as `code` (text) or `code_src` (a local file, or an address that the server reads), with its
        `handler`. `python_version` is that of this interpreter if it is not given. The other arguments are defaults
        for runs of the function.
        """
        spec = make_function_spec(kind, arguments)
        metadata = {"description": description, "labels": labels}
        known = {field: value for field, value in metadata.items() if value is not None}
        version = id or uuid4().hex
        try:
            return await self.create_function(name, kind, spec, id=version, metadata=known)
        except AlreadyExists:
            if id is not None:
                raise
            return await self.get_function(name, id=version)  # a request that was repeated had arrived

    async def ensure_function(
        self, name: str, kind: str, arguments: Mapping[str, Any], *, folder: Path | None = None
    ) -> AsyncFunction:
        """The version of a function with this content; creates it if there is none. Idempotent."""
        spec = make_function_spec(kind, arguments, folder=folder)
        version = make_content_id(kind, name, spec)
        try:
            return await self.create_function(name, kind, spec, id=version, metadata={})
        except AlreadyExists:
            return await self.get_function(name, id=version)

    async def create_function(
        self,
        name: str,
        kind: str,
        spec: Json,
        *,
        id: str,  # noqa: A002 - the API's name
        metadata: Json,
    ) -> AsyncFunction:
        """Create a version of a function from a spec as it is, which the server checks."""
        body = {"kind": kind, "name": name, "id": id, "project": self.name, "metadata": metadata, "spec": spec}
        return AsyncFunction(await self._create("functions", body), self._transport)

    async def get_function(
        self,
        name: str,
        *,
        id: str | None = None,  # noqa: A002 - the API's name
    ) -> AsyncFunction:
        """The newest version of a function, or the one with that id. Raises `NotFound` with the nearest name."""
        return AsyncFunction(await self._get_named("function", name, entity_id=id), self._transport)

    async def list_functions(self, *, limit: int = MOST_LISTED) -> list[AsyncFunction]:
        """The newest version of each function, newest first."""
        found = await read_pages(self._transport, "-", self.name, "functions", limit=limit)
        return [AsyncFunction(document, self._transport) for document in found]

    async def get_run(self, id: str) -> AsyncRun:  # noqa: A002 - the API's name
        """A run by its id."""
        return AsyncRun(await self._transport.fetch(get("-", self.name, "runs", id)), self._transport)

    async def list_runs(
        self,
        *,
        state: str | None = None,
        action: str | None = None,
        function: str | None = None,
        limit: int = MOST_LISTED,
    ) -> list[AsyncRun]:
        """Runs, newest first. `function` is a name or the reference of a version."""
        if function is not None and "://" not in function:
            function = (await self.get_function(function)).reference
        path = ("-", self.name, "runs")
        found = await read_pages(self._transport, *path, state=state, action=action, function=function, limit=limit)
        return [AsyncRun(document, self._transport) for document in found]

    async def new_secret(self, name: str, secret_value: str) -> None:
        """Store a secret of that name, or change its value."""
        with suppress(AlreadyExists):
            await self._create("secrets", {"kind": "secret", "name": name, "id": uuid4().hex})
        await self._transport.fetch(put("-", self.name, "secrets", "data", body={name: secret_value}))

    async def get_secret(self, name: str) -> str:
        """The value of a secret. Raises `NotFound`."""
        found = await self._transport.fetch(get("-", self.name, "secrets", "data", keys=name))
        if name not in found:
            raise NotFound(f"project {self.name} has no secret {name}", status=404)
        return str(found[name])

    async def list_secrets(self, *, limit: int = MOST_LISTED) -> list[str]:
        """The names of its secrets."""
        found = await read_pages(self._transport, "-", self.name, "secrets", limit=limit)
        return [str(document["name"]) for document in found]

    async def delete_secret(self, name: str) -> None:
        """Delete a secret and its value. Raises `NotFound` with the nearest name."""
        document = await self._get_named("secret", name, entity_id=None)
        await self._transport.fetch(delete("-", self.name, "secrets", str(document["id"])))

    async def _create(self, plural: str, body: Json) -> Json:
        """Create an entity under an id that the client chose, so that a repeated request cannot create two."""
        path = ("-", self.name, plural)
        created: Json = await self._transport.fetch(post(*path, body=body, is_safe_to_repeat=True))
        return created

    async def _get_named(self, type_name: str, name: str, *, entity_id: str | None) -> Json:
        plural = f"{type_name}s"
        if entity_id is not None:
            found: Json = await self._transport.fetch(get("-", self.name, plural, entity_id, name=name))
            return found
        page = await self._transport.fetch(get("-", self.name, plural, name=name, size=1))
        for document in page.get("content") or ():
            return dict(document)
        others = await read_pages(self._transport, "-", self.name, plural, limit=MOST_LISTED)
        nearest = find_nearest(name, [str(document.get("name")) for document in others])
        meant = f"; did you mean {nearest}?" if nearest else ""
        raise NotFound(f"project {self.name} has no {type_name} {name}{meant}", status=404)
