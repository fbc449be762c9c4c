"""Opens the file storage of a setting."""

from importlib import import_module
from pathlib import Path

from runyard.app.blob_store import BlobStore, BlobsUnavailable
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
