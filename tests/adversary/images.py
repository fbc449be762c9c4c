"""The judge's own reading of image names and of patterns of images, by the documented rules.

Names follow the reference grammar of the container runtimes. Written with one regular expression and plain text, to
share nothing with `runyard.spec`.
"""

import ipaddress
import re
from functools import lru_cache
from typing import NamedTuple

_HUB = "docker.io"
_HUBS = frozenset({_HUB, "index.docker.io", "registry-1.docker.io"})
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_PART = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:(?P<host>{_LABEL}(?:\.{_LABEL})*|\[[A-Fa-f0-9:]+\])(?::(?P<port>[0-9]+))?/)?(?P<path>{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha(?:256:[a-f0-9]{64}|384:[a-f0-9]{96}|512:[a-f0-9]{128})))?",
    re.ASCII,
)


class _Image(NamedTuple):
    host: str
    port: int
    path: str
    tag: str
    digest: str

    @property
    def name(self) -> str:
        port = "" if self.port == _default_port(self.host) else f":{self.port}"
        return f"{self.host}{port}/{self.path}"


def is_denied(pattern: str, image: str) -> bool:
    """Whether a pattern covers this image in any of its spellings, so that no spelling evades a denial."""
    read = _read(image)
    if read is None:
        return True
    texts = [read.name, read.name + f":{read.tag}" * bool(read.tag), image]
    if any(glob(pattern, text) for text in texts):
        return True
    pattern, at, digest = pattern.partition("@")
    name, tag = _cut_tag(pattern)
    if not _covers_name(name, read, is_any_port=True):
        return False
    if at and "*" not in digest:
        return digest == read.digest
    return (not at or (read.digest != "" and glob(digest, read.digest))) and (tag is None or glob(tag, read.tag))


def is_allowed(pattern: str, image: str) -> bool:
    """Whether a pattern covers this image. A tag covers no digest, unless the pattern has a digest as well."""
    read = _read(image)
    if read is None:
        return False
    pattern, at, digest = pattern.partition("@")
    name, tag = _cut_tag(pattern)
    if at and not (read.digest and glob(digest, read.digest)):
        return False
    if tag is not None and (not glob(tag, read.tag) or (read.digest and not at)):
        return False
    return _covers_name(name, read, is_any_port=False)


@lru_cache(maxsize=4096)
def glob(pattern: str, text: str) -> bool:
    """Match a pattern in which `*` stands for any text."""
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split("*")), text, re.DOTALL) is not None


def _read(image: str) -> _Image | None:
    first, slash, _ = image.partition("/")
    full = image if slash and _is_host(first) else f"{_HUB}/{image}"
    found = _REFERENCE.fullmatch(full)
    if found is None or found["host"] is None:
        return None
    host = _fold_host(found["host"])
    path = f"library/{found['path']}" if host == _HUB and "/" not in found["path"] else found["path"]
    tag, digest = found["tag"] or "", found["digest"] or ""
    port = int(found["port"]) if found["port"] else _default_port(host)
    return _Image(host, port, path, tag or ("" if digest else "latest"), digest)


def _is_host(first: str) -> bool:
    return first == "localhost" or any(character in ".:" or character.isupper() for character in first)


def _fold_host(host: str) -> str:
    host = host.lower().rstrip(".")
    if host.startswith("["):
        packed = ipaddress.ip_address(host[1:-1]).packed
        is_mapped = packed[:12] == bytes(10) + b"\xff\xff"
        return ".".join(map(str, packed[12:])) if is_mapped else f"[{ipaddress.ip_address(packed)}]"
    return _HUB if host in _HUBS else host


def _default_port(host: str) -> int:
    return 80 if host in ("localhost", "[::1]") or host.startswith("127.") else 443


def _cut_tag(pattern: str) -> tuple[str, str | None]:
    head, slash, last = pattern.rpartition("/")
    name, colon, tag = last.partition(":")
    return f"{head}{slash}{name}", tag if colon else None


def _covers_name(name: str, image: _Image, *, is_any_port: bool) -> bool:
    first, slash, rest = name.partition("/")
    if not slash:
        return glob(name, image.name) if name.startswith("*") else (image.host, image.path) == _hub_path(name, image)
    if not (first.startswith("*") or _is_host(first)):
        return image.host == _HUB and image.port == 443 and glob(name, image.path)
    host, _, port = first.partition(":") if "[" not in first else first.partition("]:")
    host = _fold_host(f"{host}]" if host.startswith("[") and port else host)
    if not glob(host, image.host):
        return False
    is_port = (int(port) == image.port if port.isdigit() else glob(port, str(image.port))) if port else False
    if not is_port and (port or not (is_any_port or host == "*" or image.port == _default_port(image.host))):
        return False
    paths = [rest, f"library/{rest}"] if host == _HUB and "/" not in rest and "*" in rest else [rest]
    if host == _HUB and "/" not in rest and "*" not in rest:
        paths = [f"library/{rest}"]
    return any(glob(path, image.path) for path in paths)


def _hub_path(name: str, image: _Image) -> tuple[str, str] | None:
    """Host and path of a name without a slash, if it covers the image: an official image of Docker Hub."""
    is_covered = image.port == 443 and glob(f"library/{name}", image.path)
    return (_HUB, image.path) if is_covered else None
