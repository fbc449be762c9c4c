"""Storage of artifact files: an implementation of `app.blob_store.BlobStore` in a directory.

Start in `folder.py`. May import `app.blob_store`.
"""

from runyard.files.folder import FolderBlobs

__all__ = ["FolderBlobs"]
