"""Local files to upload and download: lists, digests, and paths that stay inside their folder."""

import base64
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, ParamSpec, TypeVar
from urllib.parse import quote

from runyard.sdk.calls import make_path
from runyard.sdk.errors import ArgumentError, TransferFailed

CHUNK_BYTES = 1 << 20
MOST_FILES = 10_000
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file to upload."""

    source: Path
    path: str
    """Its path below the entity, with `/`."""


def list_local_files(source: str | os.PathLike[str]) -> list[LocalFile]:
    """The file, or every file of the folder. Raises `ArgumentError`, also for links, which could lead elsewhere."""
    root = Path(source)
    if root.is_file():
        return [LocalFile(root, root.name)]
    if not root.is_dir():
        raise ArgumentError(f"{root}: no such file or folder")
    found = sorted(_iter_files(root))
    if not found:
        raise ArgumentError(f"{root}: the folder has no files")
    if len(found) > MOST_FILES:
        raise ArgumentError(f"{root}: {len(found)} files; allowed: at most {MOST_FILES}")
    return [LocalFile(path, path.relative_to(root).as_posix()) for path in found]


def measure_files(files: Iterable[LocalFile]) -> int:
    """How many bytes they have. Raises `ArgumentError`."""
    total = 0
    for file in files:
        try:
            total += file.source.stat().st_size
        except OSError as error:
            raise ArgumentError(f"{file.source}: cannot be read: {error.strerror or error}") from None
    return total


def _iter_files(root: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(root, followlinks=False):
        for name in names:
            path = Path(folder) / name
            if path.is_symlink():
                raise ArgumentError(f"{path}: is a link; upload the file itself")
            yield path


def hash_file(path: Path, on_read: Callable[[int], None] = lambda _: None) -> tuple[int, bytes]:
    """Size and SHA-256 of a file, read piece by piece. Raises `ArgumentError`."""
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
                on_read(len(chunk))
    except OSError as error:
        raise ArgumentError(f"{path}: cannot be read: {error.strerror or error}") from None
    return size, digest.digest()


def make_upload_headers(size: int, digest: bytes) -> dict[str, str]:
    """The headers by which the server checks an upload (RFC 9530)."""
    return {"Content-Length": str(size), "Content-Digest": f"sha-256=:{base64.b64encode(digest).decode()}:"}


def make_file_address(entity: tuple[str, ...], path: str) -> str:
    """Where the bytes of a file of an entity are."""
    return f"{make_path(*entity)}/files/content/{quote(path, safe='/')}"


def make_etag(digest: str) -> str:
    """The `ETag` of the bytes with that SHA-256, in hexadecimal."""
    return f'"{digest}"'


def choose_target(folder: Path, path: str) -> Path:
    """Where a file of the server goes; raises `TransferFailed` if its path would lead out of the folder."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or any(part in ("..", "") or "\\" in part or "\0" in part for part in parts):
        raise TransferFailed(f"the server names a path that leads out of the folder: {path[:200]}")
    return folder.joinpath(*parts)


def check_download(path: Path, wanted: Any) -> None:
    """Compare a file with the `hash` of its file info. Raises `TransferFailed`."""
    _, digest = hash_file(path)
    if isinstance(wanted, str) and wanted.startswith("sha256:") and wanted != f"sha256:{digest.hex()}":
        raise TransferFailed(f"{path}: the bytes that arrived are not those of the server")


def call_directly(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function. The sync client reads files where the async one uses a thread."""
    return function(*args, **kwargs)
