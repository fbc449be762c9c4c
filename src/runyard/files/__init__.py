"""Storage of artifact files: `app.blob_store.BlobStore` in a directory and in S3, `app.files_store.FilesStore` in S3.

Start in `backends.py` (`open_blobs`). May import the two ports, `app.lru_map` and `s3`.
"""

from runyard.files.backends import open_blobs, open_files_store
from runyard.files.folder import FolderBlobs

__all__ = ["FolderBlobs", "open_blobs", "open_files_store"]
