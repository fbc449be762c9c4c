"""What is sent to the server: one `Call` per request. Pure."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

MOST_ANSWER_BYTES = 64 << 20
"""The largest response that is read into memory."""
Json = dict[str, Any]
QueryValue = str | int | tuple[str, ...]
"""Of a parameter; a tuple repeats it."""
_REPEATABLE = frozenset({"GET", "HEAD", "PUT", "DELETE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """Bytes of a local file, sent as a body."""

    path: Path
    start: int = 0
    size: int
    on_sent: Callable[[int], None] = lambda _: None
    """Called with the place in the file up to which bytes went out; each attempt begins at `start` again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request, without what every request has."""

    method: str
    path: str
    query: Mapping[str, QueryValue] = field(default_factory=lambda: MappingProxyType({}))
    body: Any = None
    """JSON."""
    form: Mapping[str, str] | None = None
    """A form, instead of JSON."""
    file: FilePart | None = None
    """Bytes of a file, instead of JSON."""
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    read_seconds: float | None = None
    """How long the server may be silent before it answers, if that is longer than the client's `timeout`."""
    is_safe_to_repeat: bool | None = None
    """Whether it may be sent again if nobody knows whether it arrived. None: as HTTP says of the method."""

    @property
    def may_repeat(self) -> bool:
        """Whether it may be sent again if nobody knows whether it arrived."""
        return self.method in _REPEATABLE if self.is_safe_to_repeat is None else self.is_safe_to_repeat


@dataclass(frozen=True, slots=True)
class Answer:
    """A response that has been read."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def find_json(self) -> Any:
        """Its JSON; None if it is not JSON."""
        try:
            return json.loads(self.content) if self.content else {}
        except ValueError:
            return None

    @property
    def text(self) -> str:
        """Its text."""
        return self.content.decode(errors="replace")


def make_path(*parts: str) -> str:
    """`/api/v1/…` from the parts of a path, each escaped."""
    return "/api/v1/" + "/".join(quote(part, safe="") for part in parts)


def get(*parts: str, **query: QueryValue | None) -> Call:
    """A GET; parameters that are None are left out."""
    return Call(method="GET", path=make_path(*parts), query=select(query))


def post(*parts: str, body: Any = None, is_safe_to_repeat: bool = False, **query: str | int | None) -> Call:
    """A POST."""
    return Call(
        method="POST",
        path=make_path(*parts),
        body={} if body is None else body,
        query=select(query),
        is_safe_to_repeat=is_safe_to_repeat,
    )


def put(*parts: str, body: Any, expected_revision: int | None = None, **query: str | int | None) -> Call:
    """A PUT; with a revision, only of what has it."""
    headers = {} if expected_revision is None else {"If-Match": f'"{expected_revision}"'}
    return Call(method="PUT", path=make_path(*parts), body=body, query=select(query), headers=headers)


def delete(*parts: str, expected_revision: int | None = None, **query: str | int | None) -> Call:
    """A DELETE; with a revision, only of what has it."""
    headers = {} if expected_revision is None else {"If-Match": f'"{expected_revision}"'}
    return Call(method="DELETE", path=make_path(*parts), query=select(query), headers=headers)


def select(query: Mapping[str, QueryValue | None]) -> dict[str, QueryValue]:
    """The parameters that are set."""
    return {name: value for name, value in query.items() if value is not None}
