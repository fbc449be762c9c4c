"""The spec of a function from the arguments of `new_function`: reads local code, and takes this Python's version."""

import base64
import hashlib
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runyard.sdk.arguments import FUNCTION_ARGUMENTS, check_arguments, to_spec
from runyard.sdk.errors import ArgumentError

DEFAULT_KIND = "python"
MOST_CODE_BYTES = 512 * 1024
_SOURCE = ("handler", "init_function", "lang", "base64", "code")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")


def make_function_spec(kind: str, arguments: Mapping[str, Any], *, folder: Path | None = None) -> dict[str, Any]:
    """The spec as it is sent. Paths of code are relative to `folder`. Raises `ArgumentError`."""
    check_arguments(arguments, known=FUNCTION_ARGUMENTS, of="new_function")
    spec = to_spec({name: value for name, value in arguments.items() if name not in ("code_src", *_SOURCE)})
    source = dict(spec.pop("source", {}))
    source |= {name: arguments[name] for name in _SOURCE if arguments.get(name) is not None}
    if arguments.get("code_src") is not None:
        source["source"] = str(arguments["code_src"])
    if source:
        spec["source"] = pack_source(source, folder=folder)
    if kind == DEFAULT_KIND:
        spec.setdefault("python_version", f"PYTHON3_{sys.version_info.minor}")
    return spec


def pack_source(source: Mapping[str, Any], *, folder: Path | None = None) -> dict[str, Any]:
    """Code as it is sent: text and local files become base64. Raises `ArgumentError`."""
    packed = {name: value for name, value in source.items() if value is not None}
    address = packed.get("source")
    if "code" in packed:
        packed["base64"] = _encode(str(packed.pop("code")).encode(), what="the code")
    elif "base64" not in packed and isinstance(address, str) and not _SCHEME.match(address):
        path = (folder or Path()) / address
        packed |= {"base64": _encode(_read(path), what=str(path)), "source": path.name}
    return packed


def make_content_id(kind: str, name: str, spec: Mapping[str, Any]) -> str:
    """An id that the same function always has: creating it again creates nothing."""
    said = json.dumps([kind, name, spec], sort_keys=True, default=str)
    return hashlib.sha256(said.encode()).hexdigest()[:32]


def draft_function(project: str, name: str, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The document of a function whose id is made of its content."""
    version = make_content_id(kind, name, spec)
    return {"kind": kind, "name": name, "id": version, "project": project, "metadata": {}, "spec": dict(spec)}


def _encode(content: bytes, *, what: str) -> str:
    if len(content) > MOST_CODE_BYTES:
        raise ArgumentError(f"{what} has {len(content)} bytes; allowed: at most {MOST_CODE_BYTES}")
    return base64.b64encode(content).decode()


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(MOST_CODE_BYTES + 1)
    except OSError as error:
        raise ArgumentError(f"{path}: cannot be read: {error.strerror or error}") from None
