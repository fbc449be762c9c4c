"""Read stored files."""

from collections.abc import AsyncIterator

from runyard.app.blob_store import BlobMissing
from runyard.app.core import Core
from runyard.app.entities import require_entity
from runyard.app.errors import Gone, Missing, NotPossible
from runyard.app.files.client_files import find_client_file, list_client_files
from runyard.app.files.file_storage import require_blobs, require_files_store
from runyard.app.files_store import ClientFile
from runyard.app.model import StoredFile
from runyard.spec.problem_codes import Code

MOST_NAMED = 3
AnyFile = StoredFile | ClientFile
"""A file that the server stores, or one in the files store."""


async def get_file(core: Core, type_name: str, project: str, entity_id: str, path: str) -> AnyFile:
    """By its path, with its bytes present. Raises `Missing`, and `Gone` if its bytes are lost."""
    async with core.store.begin(is_read_only=True) as unit:
        entity = await require_entity(unit, type_name, project, entity_id)
        file = await unit.files.find(type_name, entity_id, path, project=project)
    if file is None:
        if (found := await find_client_file(core, entity, path)) is not None:
            return found
        raise Missing("file", f"{path} of {type_name} {entity_id}")
    await _check_present(core, file)
    return file


async def find_only_file(core: Core, type_name: str, project: str, entity_id: str) -> AnyFile:
    """The file of an entity that has one. Raises as `get_file`, and `NotPossible` if there are several."""
    async with core.store.begin(is_read_only=True) as unit:
        entity = await require_entity(unit, type_name, project, entity_id)
        stored = await unit.files.list_files(type_name, entity_id, project=project)
    files: list[AnyFile] = [*stored] or [*await list_client_files(core, entity)]
    if not files:
        raise Missing("file", f"of {type_name} {entity_id}")
    if len(files) > 1:
        named = ", ".join(file.path for file in files[:MOST_NAMED]) + (", …" if len(files) > MOST_NAMED else "")
        message = f"{type_name} {entity_id} has {len(files)} files ({named}): add the path of one to the address"
        raise NotPossible(Code.FILE_SEVERAL, message)
    if isinstance(files[0], StoredFile):
        await _check_present(core, files[0])
    return files[0]


def read_file(core: Core, file: AnyFile, *, start: int = 0, size: int | None = None) -> AsyncIterator[bytes]:
    """Bytes of a file from there on, in chunks; by default all."""
    size = file.size - start if size is None else size
    if isinstance(file, StoredFile):
        return require_blobs(core).read(file.blob, start=start, size=size)
    return require_files_store(core).read(file, start=start, size=size)


async def _check_present(core: Core, file: StoredFile) -> None:
    try:
        size = await require_blobs(core).measure(file.blob)
    except BlobMissing:
        size = None
    if size != file.size:
        message = f"the bytes of file {file.path} of {file.type} {file.id} are missing from the file storage"
        raise Gone(Code.FILE_LOST, f"{message}: restore its folder from the backup, or upload the file again")
