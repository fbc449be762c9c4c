"""The blob store of this server."""

from runyard.app.blob_store import BlobStore
from runyard.app.core import Core
from runyard.app.errors import NotSupported
from runyard.spec.problem_codes import Code


def require_blobs(core: Core) -> BlobStore:
    """Where bytes are stored; raises `NotSupported` if this server stores none."""
    if core.blobs is None:
        raise NotSupported(Code.FILES_OFF, "this server has no file storage")
    return core.blobs
