"""The list of an entity's files, as DigitalHub's SDK reads it: stored here, or only described by a client."""

from collections.abc import Sequence
from datetime import UTC
from email.utils import format_datetime
from pathlib import PurePosixPath

from runyard.app.core import Core
from runyard.app.entities import require_entity
from runyard.app.model import Json, StoredFile


async def list_all_files(core: Core, type_name: str, project: str, entity_id: str) -> list[Json]:
    """Stored files by path, then those that a client described and that are not stored here. Raises `Missing`."""
    async with core.store.begin(is_read_only=True) as unit:
        entity = await require_entity(unit, type_name, project, entity_id)
        stored = await unit.files.list_files(type_name, entity_id, project=project)
    described = entity.status.get("files")
    return [*map(file_to_json, stored), *_list_others(described, stored)]


def file_to_json(file: StoredFile) -> Json:
    """The fields of DigitalHub's file info. `stored` is ours: the bytes are at `files/content/{path}`."""
    return {
        "path": file.path,
        "name": PurePosixPath(file.path).name,
        "content_type": file.content_type,
        "size": file.size,
        "hash": f"sha256:{file.sha256}",
        "last_modified": format_datetime(file.at.astimezone(UTC), usegmt=True),
        "stored": True,
    }


def _list_others(described: object, stored: Sequence[StoredFile]) -> list[Json]:
    if not isinstance(described, list):
        return []
    paths = {file.path for file in stored}
    others = [entry for entry in described if isinstance(entry, dict) and entry.get("path") not in paths]
    # Only the server says which files it has.
    return [{name: value for name, value in entry.items() if name != "stored"} for entry in others]
