"""The source of a function: brought into a folder, from which its handler is imported."""

import base64
import binascii
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from .archives import extract_zip, find_root
from .downloads import download, download_s3
from .failures import NotPrepared
from .git_checkouts import check_out

DEFAULT_FILE = "main.py"
"""The name of inline code without a file name, and the module of a handler that names none."""
DEFAULT_MODULE = "main"
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")


@dataclass(frozen=True)
class SourceTree:
    """A folder of source, and the module of a handler that names none."""

    root: Path
    module: str


def prepare_source(source: Mapping[str, Any], *, work: Path) -> SourceTree:
    """Bring the source into `work`; raises `NotPrepared`. `base64` wins over `code`, and both over an address."""
    address = _get_text(source, "source").strip()
    if encoded := _get_text(source, "base64"):
        return _write_inline(_decode(encoded), address, work=work)
    if code := _get_text(source, "code"):
        return _write_inline(code.encode("utf-8", "surrogatepass"), address, work=work)
    if not address:
        raise NotPrepared("the function has no source; give `code`, `base64` or the address `source`")
    return _fetch(address, work=work)


def _fetch(address: str, *, work: Path) -> SourceTree:
    matched = _SCHEME.match(address)
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
    path = Path(unquote(urlsplit(address).path) if _SCHEME.match(address) else address)
    if path.is_dir():
        return SourceTree(root=path.resolve(), module=DEFAULT_MODULE)
    if path.is_file() and path.suffix == ".zip":
        extract_zip(path, work)
        return SourceTree(root=find_root(work), module=DEFAULT_MODULE)
    if path.is_file():
        return SourceTree(root=path.resolve().parent, module=path.stem)
    raise NotPrepared(f"the source {str(path)[:200]} does not exist in this image or machine")


def _write_inline(content: bytes, address: str, *, work: Path) -> SourceTree:
    """Write the code under the file name that the client gave, so that tracebacks name it."""
    name = _find_file_name(address)
    path = work / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return SourceTree(root=work, module=to_module(name))


def _find_file_name(address: str) -> PurePosixPath:
    """The relative path of a Python file if `source` is one; else `main.py`. Never a path outside of the folder."""
    path = PurePosixPath(address)
    if not address or _SCHEME.match(address) or path.suffix != ".py" or len(address) > 255:
        return PurePosixPath(DEFAULT_FILE)
    if path.is_absolute() or ".." in path.parts or not all(part.isidentifier() for part in path.with_suffix("").parts):
        path = PurePosixPath(path.name)
    return path if path.stem.isidentifier() else PurePosixPath(DEFAULT_FILE)


def to_module(path: PurePosixPath) -> str:
    """The module name of a Python file of the source: `src/train.py` is `src.train`."""
    return ".".join(path.with_suffix("").parts)


def _decode(encoded: str) -> bytes:
    try:
        return base64.b64decode("".join(encoded.split()), validate=True)
    except (binascii.Error, ValueError):
        raise NotPrepared("`source.base64` is not valid base64") from None


def _get_text(source: Mapping[str, Any], key: str) -> str:
    value = source.get(key)
    return value if isinstance(value, str) else ""


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
