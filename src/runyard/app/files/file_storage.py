"""The blob store of this server."""

from runyard.app.blob_store import BlobStore
from runyard.app.core import Core
from runyard.app.errors import NotSupported
from runyard.app.files_store import FilesStore
from runyard.spec.problem_codes import Code


def require_blobs(core: Core) -> BlobStore:
    """Where bytes are stored; raises `NotSupported` if this server stores none."""
    if core.blobs is None:
        raise NotSupported(Code.FILES_OFF, "this server has no file storage")
    return core.blobs


def require_files_store(core: Core) -> FilesStore:
    """The files store of clients; raises `NotSupported` if this server cannot read it."""
    if core.files_store is None:
        raise NotSupported(Code.FILES_OFF, "this server cannot read the files store")
    return core.files_store
