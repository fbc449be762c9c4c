"""The artifacts, data items and models of a project."""

from os import PathLike
from typing import Any
from uuid import uuid4

from runyard.sdk.aio.pages import read_pages
from runyard.sdk.aio.stored_files import AsyncStoredEntity, StoredType, log_files
from runyard.sdk.aio.transport import AsyncTransport
from runyard.sdk.calls import Json, get, post
from runyard.sdk.documents import EntityView
from runyard.sdk.errors import AlreadyExists, NotFound
from runyard.sdk.html_tables import Listing
from runyard.sdk.transfer_progress import OnProgress
from runyard.spec.problems import find_nearest

MOST_LISTED = 100
_NOUNS = {"configmap": "config map", "dataitem": "data item"}


class AsyncProjectFiles(EntityView):
    """What a project has besides functions, runs and secrets."""

    def __init__(self, document: Json, transport: AsyncTransport) -> None:
        super().__init__(document)
        self._transport = transport

    async def log_artifact(
        self,
        name: str,
        source: str | PathLike[str],
        *,
        kind: str | None = None,
        description: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> AsyncStoredEntity:
        """Upload a file, or the files of a folder, as a version of an artifact."""
        metadata = make_metadata(description)
        return await log_files(
            self._transport, self.name, "artifact", name, source, kind=kind, metadata=metadata, on_progress=on_progress
        )

    async def log_dataitem(
        self,
        name: str,
        source: str | PathLike[str],
        *,
        kind: str | None = None,
        description: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> AsyncStoredEntity:
        """Upload a file, or the files of a folder, as a version of a data item; runs name it in `inputs`."""
        metadata = make_metadata(description)
        return await log_files(
            self._transport, self.name, "dataitem", name, source, kind=kind, metadata=metadata, on_progress=on_progress
        )

    async def log_model(
        self,
        name: str,
        source: str | PathLike[str],
        *,
        kind: str | None = None,
        description: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> AsyncStoredEntity:
        """Upload a file, or the files of a folder, as a version of a model."""
        metadata = make_metadata(description)
        return await log_files(
            self._transport, self.name, "model", name, source, kind=kind, metadata=metadata, on_progress=on_progress
        )

    async def new_artifact(
        self, name: str, kind: str = "artifact", *, path: str, description: str | None = None, **spec: Any
    ) -> AsyncStoredEntity:
        """Create a version of an artifact whose bytes are at an address, such as `s3://…`; nothing is uploaded."""
        return await self._add("artifact", name, kind, description=description, spec={"path": path, **spec})

    async def new_dataitem(
        self, name: str, kind: str = "dataitem", *, path: str, description: str | None = None, **spec: Any
    ) -> AsyncStoredEntity:
        """Create a version of a data item whose bytes are at an address, such as `s3://…`; nothing is uploaded."""
        return await self._add("dataitem", name, kind, description=description, spec={"path": path, **spec})

    async def new_model(
        self, name: str, kind: str = "model", *, path: str, description: str | None = None, **spec: Any
    ) -> AsyncStoredEntity:
        """Create a version of a model whose bytes are at an address, such as `s3://…`; nothing is uploaded."""
        return await self._add("model", name, kind, description=description, spec={"path": path, **spec})

    async def get_artifact(
        self,
        name: str,
        *,
        id: str | None = None,  # noqa: A002 - the API's name
    ) -> AsyncStoredEntity:
        """The newest version of an artifact, or the one with that id. Raises `NotFound` with the nearest name."""
        return await self._get_stored("artifact", name, entity_id=id)

    async def get_dataitem(
        self,
        name: str,
        *,
        id: str | None = None,  # noqa: A002 - the API's name
    ) -> AsyncStoredEntity:
        """The newest version of a data item, or the one with that id. Raises `NotFound` with the nearest name."""
        return await self._get_stored("dataitem", name, entity_id=id)

    async def get_model(
        self,
        name: str,
        *,
        id: str | None = None,  # noqa: A002 - the API's name
    ) -> AsyncStoredEntity:
        """The newest version of a model, or the one with that id. Raises `NotFound` with the nearest name."""
        return await self._get_stored("model", name, entity_id=id)

    async def list_artifacts(self, *, limit: int = MOST_LISTED) -> list[AsyncStoredEntity]:
        """The newest version of each artifact."""
        return await self.list_stored("artifact", limit=limit)

    async def list_dataitems(self, *, limit: int = MOST_LISTED) -> list[AsyncStoredEntity]:
        """The newest version of each data item."""
        return await self.list_stored("dataitem", limit=limit)

    async def list_models(self, *, limit: int = MOST_LISTED) -> list[AsyncStoredEntity]:
        """The newest version of each model."""
        return await self.list_stored("model", limit=limit)

    async def list_stored(self, type_name: StoredType, *, limit: int = MOST_LISTED) -> list[AsyncStoredEntity]:
        """The newest version of each artifact, data item or model."""
        found = await read_pages(self._transport, "-", self.name, f"{type_name}s", limit=limit)
        return Listing(AsyncStoredEntity(document, self._transport, type_name=type_name) for document in found)

    async def _add(
        self, type_name: StoredType, name: str, kind: str, *, description: str | None, spec: Json
    ) -> AsyncStoredEntity:
        entity_id = uuid4().hex
        body = {"kind": kind, "name": name, "id": entity_id, "metadata": make_metadata(description), "spec": spec}
        try:
            document = await self._create(f"{type_name}s", body)
        except AlreadyExists:  # a request that was repeated had arrived
            document = await self._get_named(type_name, name, entity_id=entity_id)
        return AsyncStoredEntity(document, self._transport, type_name=type_name)

    async def _get_stored(self, type_name: StoredType, name: str, *, entity_id: str | None) -> AsyncStoredEntity:
        document = await self._get_named(type_name, name, entity_id=entity_id)
        return AsyncStoredEntity(document, self._transport, type_name=type_name)

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
        raise NotFound(f"project {self.name} has no {_NOUNS.get(type_name, type_name)} {name}{meant}", status=404)


def make_metadata(description: str | None, labels: list[str] | None = None) -> Json:
    """What metadata says of an entity when it is created."""
    metadata = {"description": description, "labels": labels}
    return {field: value for field, value in metadata.items() if value is not None}
