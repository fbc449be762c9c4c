"""The source of a function: brought into a folder, from which its handler is imported.

`remote_source` is imported only for a source that must be fetched: most are inline, and start the faster.
"""

import base64
import binascii
import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from .failures import NotPrepared

DEFAULT_FILE = "main.py"
"""The name of inline code without a file name, and the module of a handler that names none."""
DEFAULT_MODULE = "main"
SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")


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
    addresses = importlib.import_module(".remote_source.source_addresses", __package__)
    fetch: Callable[..., SourceTree] = addresses.fetch_source
    return fetch(address, work=work)


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
    if not address or SCHEME.match(address) or path.suffix != ".py" or len(address) > 255:
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
