"""Opens the file storage of a setting."""

from importlib import import_module
from pathlib import Path

from runyard.app.blob_store import BlobStore, BlobsUnavailable
from runyard.app.files_store import FilesStore
from runyard.files.folder import FolderBlobs


def open_blobs(
    place: str,
    *,
    s3_endpoint: str | None = None,
    s3_region: str = "us-east-1",
    s3_access_key: str | None = None,
    s3_secret_key: str | None = None,
) -> BlobStore:
    """The store for a directory or `s3://bucket/prefix`. Opens nothing before its first use.

    S3 needs httpx2 (`pip install 'runyard[s3]'`), which is loaded on demand: it takes longer than the server's start.
    """
    if not place.startswith("s3://"):
        return FolderBlobs(Path(place))
    if not s3_access_key or not s3_secret_key:
        raise ValueError("files in S3 need credentials")
    try:
        open_s3_blobs = import_module("runyard.files.s3").open_s3_blobs
    except ModuleNotFoundError as error:
        what = f"files in S3 need {error.name}, which is not installed: pip install 'runyard[s3]'"
        raise BlobsUnavailable(what) from error
    store: BlobStore = open_s3_blobs(
        place.removeprefix("s3://"),
        endpoint=s3_endpoint,
        region=s3_region,
        access_key=s3_access_key,
        secret_key=s3_secret_key,
    )
    return store


def open_files_store(
    place: str,
    *,
    s3_endpoint: str | None = None,
    s3_region: str = "us-east-1",
    s3_access_key: str | None = None,
    s3_secret_key: str | None = None,
) -> FilesStore | None:
    """The files store of clients at `s3://bucket/prefix`; None without credentials: then only clients use it."""
    if not s3_access_key or not s3_secret_key:
        return None
    try:
        open_s3_files_store = import_module("runyard.files.s3_files_store").open_s3_files_store
    except ModuleNotFoundError as error:
        what = f"--files-store needs {error.name}, which is not installed: pip install 'runyard[s3]'"
        raise BlobsUnavailable(what) from error
    store: FilesStore = open_s3_files_store(
        place, endpoint=s3_endpoint, region=s3_region, access_key=s3_access_key, secret_key=s3_secret_key
    )
    return store
