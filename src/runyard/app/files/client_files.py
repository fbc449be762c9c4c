"""Files that a client stored by itself, in the files store, at the `spec.path` of the entity.

The bytes are where `spec.path` says, and only there: the server has no row of them, and counts them in no quota. It
reads and writes them with its own credentials, so the key must be within the project: otherwise whoever creates an
entity could name the files of other projects in its path.
"""

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from runyard.app.audit import audit
from runyard.app.core import Core
from runyard.app.entities import MOST_FILES, check_own_entity, require_entity
from runyard.app.errors import Conflict, Missing, NotPossible
from runyard.app.files.file_commits import FileUpload, check_digest
from runyard.app.files_store import ClientFile, FilesStore
from runyard.app.model import Entity, Json, Principal
from runyard.app.ports import Unavailable
from runyard.spec.problem_codes import Code

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPlace:
    """Where an entity's files are in the files store."""

    store: FilesStore
    key: str
    """Of the one file, or of the folder, with a slash at its end."""
    own: str
    """The folder that belongs to the entity: only there the server writes."""

    @property
    def is_own(self) -> bool:
        """Whether the server may write there."""
        return self.key.startswith(self.own)

    def locate(self, path: str) -> str | None:
        """The key of a file of the entity; None if it cannot have one."""
        if self.key.endswith("/"):
            return f"{self.key}{path}"
        return self.key if path == self.key.rpartition("/")[2] else None


def find_client_place(core: Core, entity: Entity) -> ClientPlace | None:
    """Where the entity's files are, if that is in the files store and within its project."""
    store, path = core.files_store, entity.spec.get("path")
    if store is None or not isinstance(path, str):
        return None
    address, root = path.removeprefix("zip+"), f"{store.place}/{entity.project}/"
    within = address.removeprefix(root)
    if within == address or any(part in ("", ".", "..") for part in within.removesuffix("/").split("/")):
        return None
    bucket = store.place.removeprefix("s3://").partition("/")[0]
    prefix = len(f"s3://{bucket}/")
    own = f"{root}{entity.type}/{entity.name}/{entity.id}/"
    return ClientPlace(store=store, key=address[prefix:], own=own[prefix:])


async def find_client_file(core: Core, entity: Entity, path: str) -> ClientFile | None:
    """By its path within the entity."""
    place = find_client_place(core, entity)
    key = None if place is None else place.locate(path)
    found = None if place is None or key is None else await place.store.find(key)
    return None if found is None else replace(found, path=path)


async def list_client_files(core: Core, entity: Entity) -> list[ClientFile]:
    """The files of the entity in the files store; none if that does not respond: others are still listed."""
    place = find_client_place(core, entity)
    if place is None:
        return []
    try:
        if not place.key.endswith("/"):
            found = await find_client_file(core, entity, place.key.rpartition("/")[2])
            return [] if found is None else [found]
        listed = await place.store.list_files(place.key, most=MOST_FILES)
    except Unavailable as error:
        _log.warning("the files store cannot be listed: %s", error, extra={"project": entity.project})
        return []
    return [replace(file, path=file.key.removeprefix(place.key)) for file in listed]


async def find_writable_place(
    core: Core, who: Principal, type_name: str, project: str, entity_id: str
) -> tuple[ClientPlace, Entity] | None:
    """Where the files of an entity are, if that is the files store. Raises `Missing` and `Forbidden`."""
    if core.files_store is None:
        return None
    async with core.store.begin(is_read_only=True) as unit:
        entity = await require_entity(unit, type_name, project, entity_id)
        check_own_entity(who, entity)
    place = find_client_place(core, entity)
    return (place, entity) if place is not None and place.is_own else None


async def upload_client_file(
    core: Core, who: Principal, found: tuple[ClientPlace, Entity], upload: FileUpload, chunks: AsyncIterator[bytes]
) -> ClientFile:
    """Store a file where `spec.path` says. Raises `NotPossible` if that is another file."""
    place, entity = found
    key = place.locate(upload.path)
    if key is None:
        message = f"{entity.type} {entity.id} has one file, {place.key.rpartition('/')[2]}, as its `spec.path` says"
        raise NotPossible(Code.FILE_PATH, f"{message}: upload it under that path")
    file = await write_client_file(place, key, upload, chunks)
    await _note(core, who, "put_file", entity, {"path": file.path, "size": file.size, "key": key})
    return file


async def delete_client_file(core: Core, who: Principal, found: tuple[ClientPlace, Entity], path: str) -> None:
    """Delete a file where `spec.path` says. Raises `Missing`."""
    place, entity = found
    key = place.locate(path)
    if key is None or await place.store.find(key) is None:
        raise Missing("file", f"{path} of {entity.type} {entity.id}")
    await place.store.delete(key)
    await _note(core, who, "delete_file", entity, {"path": path, "key": key})


async def _note(core: Core, who: Principal, act: str, entity: Entity, details: Json) -> None:
    async with core.store.begin() as unit:
        await audit(core, unit, who, f"{entity.type}.{act}", entity, details=details)
        await unit.commit()


async def write_client_file(
    place: ClientPlace, key: str, upload: FileUpload, chunks: AsyncIterator[bytes]
) -> ClientFile:
    """Store a file at its key. Raises `Conflict` and `NotPossible`, and what `FilesStore.write` raises."""
    condition = upload.condition
    if condition.sha256 is not None or (condition.is_new and await place.store.find(key) is not None):
        message = f"there is a file {upload.path} already" if condition.is_new else f"{upload.path} has another ETag"
        raise Conflict(f"{message}; it is at s3://…/{key}")
    await place.store.write(
        key,
        chunks,
        size=upload.size,
        content_type=upload.content_type,
        check=lambda digest: check_digest(digest, upload.sha256),
    )
    written = await place.store.find(key)
    if written is None:
        raise Conflict(f"file {upload.path} was deleted while it was uploaded")
    return replace(written, path=upload.path)
