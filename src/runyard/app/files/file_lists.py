"""The list of an entity's files, as DigitalHub's SDK reads it: stored here, or only described by a client."""

from datetime import UTC
from email.utils import format_datetime
from pathlib import PurePosixPath

from runyard.app.core import Core
from runyard.app.entities import require_entity
from runyard.app.files.client_files import list_client_files
from runyard.app.files_store import ClientFile
from runyard.app.model import Json, StoredFile


async def list_all_files(core: Core, type_name: str, project: str, entity_id: str) -> list[Json]:
    """Stored files by path, those in the files store, then what else a client described. Raises `Missing`."""
    async with core.store.begin(is_read_only=True) as unit:
        entity = await require_entity(unit, type_name, project, entity_id)
        stored = await unit.files.list_files(type_name, entity_id, project=project)
    paths = {file.path for file in stored}
    clients = [file for file in await list_client_files(core, entity) if file.path not in paths]
    described = _list_described(entity.status.get("files"))
    by_path = {entry["path"]: entry for entry in described if isinstance(entry.get("path"), str)}
    known = [_add_description(file_to_json(file), by_path.get(file.path, {})) for file in clients]
    paths |= {file.path for file in clients}
    return [*map(file_to_json, stored), *known, *(entry for entry in described if entry.get("path") not in paths)]


def file_to_json(file: StoredFile | ClientFile) -> Json:
    """The fields of DigitalHub's file info. `stored` is ours: the bytes are at `files/content/{path}`."""
    return {
        "path": file.path,
        "name": PurePosixPath(file.path).name,
        "content_type": file.content_type,
        "size": file.size,
        **({"hash": f"sha256:{file.sha256}"} if isinstance(file, StoredFile) else {}),
        "last_modified": format_datetime(file.at.astimezone(UTC), usegmt=True),
        "stored": True,
    }


def _list_described(described: object) -> list[Json]:
    """What a client described. Only the server says which files it has."""
    entries = described if isinstance(described, list) else []
    return [
        {name: value for name, value in entry.items() if name != "stored"}
        for entry in entries
        if isinstance(entry, dict)
    ]


def _add_description(shown: Json, described: Json) -> Json:
    """What only the client knows of its file: the digest, and the type, which a list of the store does not have."""
    return {**shown, **{name: described[name] for name in ("hash", "content_type") if name in described}}
