"""Storage of artifact files: two implementations of `app.blob_store.BlobStore`, in a directory and in S3.

Start in `backends.py` (`open_blobs`). May import `app.blob_store`, `app.lru_map` and `s3`.
"""

from runyard.files.backends import open_blobs
from runyard.files.folder import FolderBlobs

__all__ = ["FolderBlobs", "open_blobs"]
