"""As much of HTTP/1.1 as a relay must read: the heads, which are sent on unchanged, and where a body ends."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit


class ProtocolError(Exception):
    """The peer sent something that is not HTTP/1.1 as we read it."""


class Ending(Enum):
    """What tells the end of a body when it is not a length."""

    CHUNKS = "chunks"
    CLOSE = "close"


Framing = int | Ending  # an int is the body's length; 0: no body


@dataclass(frozen=True, slots=True)
class Request:
    """The head of a request."""

    method: str
    target: str
    # Names in lower case, values of equal names joined by a comma. Not shown: they carry credentials.
    headers: Mapping[str, str] = field(repr=False)
    raw: bytes = field(repr=False)

    @property
    def path(self) -> str:
        """The target without its query."""
        return urlsplit(self.target).path

    @property
    def is_watch(self) -> bool:
        """Whether Kubernetes answers this request with a stream of watch events."""
        watch = parse_qs(urlsplit(self.target).query).get("watch", ["false"])[-1]
        return self.method == "GET" and watch.lower() in ("true", "1")

    @property
    def framing(self) -> Framing:
        """Where the body ends."""
        return _framing(self.headers, unknown=0)

    @property
    def keeps_alive(self) -> bool:
        """Whether another request may follow on the connection."""
        is_modern = self.raw.partition(b"\r\n")[0].endswith(b"HTTP/1.1")
        return is_modern and "close" not in self.headers.get("connection", "").lower()


@dataclass(frozen=True, slots=True)
class Response:
    """The head of an answer."""

    status: int
    headers: Mapping[str, str]
    raw: bytes

    def framing(self, *, method: str) -> Framing:
        """Where the body ends, if it answers a request of that method."""
        if method == "HEAD" or self.status in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
            return 0
        if self.status == HTTPStatus.SWITCHING_PROTOCOLS:
            return Ending.CLOSE
        return _framing(self.headers, unknown=Ending.CLOSE)

    @property
    def is_interim(self) -> bool:
        """Whether the real answer is still to come (100 Continue)."""
        return self.status < HTTPStatus.OK and self.status != HTTPStatus.SWITCHING_PROTOCOLS

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection may carry another answer."""
        is_modern = self.raw.startswith(b"HTTP/1.1")
        return is_modern and "close" not in self.headers.get("connection", "").lower()


def parse_request(raw: bytes) -> Request:
    """The head of a request; raises ProtocolError."""
    line, headers = _parse_head(raw)
    try:
        method, target, version = line.split(" ")
    except ValueError as error:
        raise ProtocolError(f"not a request: {line[:80]!r}") from error
    if not version.startswith("HTTP/1."):
        raise ProtocolError(f"not HTTP/1.1: {line[:80]!r}")
    return Request(method, target, headers, raw)


def parse_response(raw: bytes) -> Response:
    """The head of an answer; raises ProtocolError."""
    line, headers = _parse_head(raw)
    version, _, rest = line.partition(" ")
    if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
        raise ProtocolError(f"not an answer: {line[:80]!r}")
    return Response(int(rest[:3]), headers, raw)


def _parse_head(raw: bytes) -> tuple[str, dict[str, str]]:
    first, *lines = raw.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name, value = name.strip().lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return first, headers


def _framing(headers: Mapping[str, str], *, unknown: Framing) -> Framing:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return Ending.CHUNKS
    try:
        return int(headers["content-length"]) if "content-length" in headers else unknown
    except ValueError as error:
        raise ProtocolError(f"bad Content-Length {headers['content-length'][:80]!r}") from error
