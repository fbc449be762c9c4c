"""Source by its address: git, zip archives and files over HTTP(S) and S3, and files of the image or machine."""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from ..failures import NotPrepared
from ..sources import DEFAULT_FILE, DEFAULT_MODULE, SCHEME, SourceTree
from .archives import extract_zip, find_root
from .downloads import download, download_s3
from .git_checkouts import check_out


def fetch_source(address: str, *, work: Path) -> SourceTree:
    """Bring the source of an address into `work`, or use it where it is; raises `NotPrepared`."""
    matched = SCHEME.match(address)
    scheme = matched[1].lower() if matched else "file"
    fetch = _FETCHERS.get(scheme)
    if fetch is None:
        allowed = ", ".join(_FETCHERS)
        raise NotPrepared(f"the scheme {scheme[:20]} of the source is unknown; allowed: {allowed}")
    return fetch(address, work)


def _fetch_git(address: str, work: Path) -> SourceTree:
    check_out(address[len("git+") :], work)
    return SourceTree(root=work, module=DEFAULT_MODULE)


def _fetch_file(address: str, work: Path) -> SourceTree:
    name = PurePosixPath(unquote(urlsplit(address).path)).name
    if name.lower().endswith(".zip"):
        raise NotPrepared(f"the source {address[:200]} is an archive; write zip+ before it: zip+{address[:200]}")
    if not name.removesuffix(".py").isidentifier():
        name = DEFAULT_FILE
    target = work / f"{name.removesuffix('.py')}.py"
    _download(address, target)
    return SourceTree(root=work, module=target.stem)


def _fetch_zip(address: str, work: Path) -> SourceTree:
    with tempfile.TemporaryDirectory(dir=work.parent, prefix=".archive-") as folder:
        archive = Path(folder) / "archive.zip"
        _download(address[len("zip+") :], archive)
        extract_zip(archive, work)
    return SourceTree(root=find_root(work), module=DEFAULT_MODULE)


def _download(address: str, into: Path) -> None:
    if address.lower().startswith("s3:"):
        download_s3(address, into)
    else:
        download(address, into)


def _use_local(address: str, work: Path) -> SourceTree:
    """A file, folder or zip archive of the image or machine; files and folders are used where they are."""
    path = Path(unquote(urlsplit(address).path) if SCHEME.match(address) else address)
    if path.is_dir():
        return SourceTree(root=path.resolve(), module=DEFAULT_MODULE)
    if path.is_file() and path.suffix == ".zip":
        extract_zip(path, work)
        return SourceTree(root=find_root(work), module=DEFAULT_MODULE)
    if path.is_file():
        return SourceTree(root=path.resolve().parent, module=path.stem)
    raise NotPrepared(f"the source {str(path)[:200]} does not exist in this image or machine")


_FETCHERS: Mapping[str, Callable[[str, Path], SourceTree]] = {
    "git+https": _fetch_git,
    "zip+https": _fetch_zip,
    "zip+http": _fetch_zip,
    "zip+s3": _fetch_zip,
    "https": _fetch_file,
    "http": _fetch_file,
    "s3": _fetch_file,
    "file": _use_local,
}
