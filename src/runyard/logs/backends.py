"""Opens the log store of a setting."""

from importlib import import_module
from pathlib import Path

from runyard.app.log_store import LogStore
from runyard.logs.database import DatabaseLogs
from runyard.logs.errors import LogsUnavailable
from runyard.logs.folder import FolderLogs


def open_logs(
    place: str,
    *,
    s3_endpoint: str | None = None,
    s3_region: str = "us-east-1",
    s3_access_key: str | None = None,
    s3_secret_key: str | None = None,
) -> LogStore:
    """The store for `database:PATH`, `folder:PATH` or `s3://bucket/prefix`. Opens nothing before its first use.

    S3 needs httpx2 (`pip install 'runyard[s3]'`), which is loaded on demand: it takes longer than the server's start.
    """
    kind, _, rest = place.partition(":")
    if kind == "database" and rest:
        return DatabaseLogs(Path(rest))
    if kind == "folder" and rest:
        return FolderLogs(Path(rest))
    if kind == "s3" and rest.startswith("//") and s3_access_key and s3_secret_key:
        try:
            open_s3_logs = import_module("runyard.logs.s3").open_s3_logs
        except ModuleNotFoundError as error:
            what = f"logs in S3 need {error.name}, which is not installed: pip install 'runyard[s3]'"
            raise LogsUnavailable(what) from error
        store: LogStore = open_s3_logs(
            rest[2:], endpoint=s3_endpoint, region=s3_region, access_key=s3_access_key, secret_key=s3_secret_key
        )
        return store
    raise ValueError("logs are kept in `database:PATH`, `folder:PATH`, or `s3://bucket/prefix` with credentials")
