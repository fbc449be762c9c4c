"""The wire form of lists and watches: pages, events and the lines they come in. No I/O here.

Decoders are built once per view; a tagged union reads a line in one pass, whatever its type, so that a bookmark
(whose object is hollow) or an ERROR (whose object is a Status) is never mistaken for an object of the view.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, Union

import msgspec

from runyard.kube.errors import Gone, KubeError, Malformed, error_from_status_object

V = TypeVar("V")

# etcd takes objects up to 1.5 MB; what is far beyond any encoding of that is not an event.
MAX_LINE_BYTES = 64 << 20


class WatchError(KubeError):
    """The server reported a failure inside a watch (its cause): what was missed is unknown, list again."""


class ListMetadata(msgspec.Struct, gc=False):
    """Where a list was taken, and where its next page begins."""

    resource_version: str = msgspec.field(default="", name="resourceVersion")
    continue_token: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, Generic[V]):
    """One page of a list."""

    metadata: ListMetadata
    items: list[V] | None
    """None where Go encoded an empty slice as null; required, or any JSON object would be an empty list."""


class Event(msgspec.Struct, tag_field="type", gc=False):
    """One line of a watch; the subclasses are its types."""


class Added(Event, Generic[V], tag="ADDED"):
    """An object that now matches; after a resume possibly one that is known."""

    object: V


class Modified(Event, Generic[V], tag="MODIFIED"):
    """An object that changed."""

    object: V


class Deleted(Event, Generic[V], tag="DELETED"):
    """The last state of an object that is gone, or that no longer matches the selector."""

    object: V


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object that does not fit the view, and why. It must not hide the others."""

    namespace: str
    name: str
    version: str
    problem: str


class Bookmark(Event, tag="BOOKMARK"):
    """Everything up to this resourceVersion has been sent."""

    class Hollow(msgspec.Struct, gc=False):
        """The only part of a bookmark's object that is used."""

        metadata: ListMetadata

    object: Hollow


class Failure(Event, tag="ERROR"):
    """The server ends the watch; the object is a Status."""

    object: dict[str, Any]


AnyEvent = Added[V] | Modified[V] | Deleted[V] | Bookmark | Failure


class _RawPage(msgspec.Struct):
    metadata: ListMetadata
    items: list[msgspec.Raw]


class _Identity(msgspec.Struct):
    class Metadata(msgspec.Struct):
        name: str
        namespace: str = ""
        resource_version: str = msgspec.field(default="", name="resourceVersion")

    metadata: Metadata


class _RawEvent(msgspec.Struct):
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: msgspec.Raw


_RAW_PAGES = msgspec.json.Decoder(_RawPage)
_RAW_EVENTS = msgspec.json.Decoder(_RawEvent)
_IDENTITIES = msgspec.json.Decoder(_Identity)


def failure_to_error(event: Failure) -> Gone | WatchError:
    """What an ERROR event means: Gone, or WatchError with the typed error as its cause. Either way, list again."""
    cause = error_from_status_object(event.object)
    if isinstance(cause, Gone):
        return cause
    error = WatchError(f"the server ended the watch: {cause.message}")
    error.__cause__ = cause
    return error


class Wire(Generic[V]):
    """The decoders for one view."""

    def __init__(self, view: type[V]) -> None:
        item: Any = dict[str, Any] if view is dict else view
        # Built at run time from a type that is a value here, which `X | Y` annotations cannot express.
        event: Any = Union[Added[item], Modified[item], Deleted[item], Bookmark, Failure]  # noqa: UP007
        self._items: msgspec.json.Decoder[V] = msgspec.json.Decoder(item)
        self._pages: msgspec.json.Decoder[Page[V]] = msgspec.json.Decoder(Page[item])
        self._events: msgspec.json.Decoder[AnyEvent[V]] = msgspec.json.Decoder(event)

    def decode_page(self, body: bytes) -> tuple[Page[V], list[Unreadable]]:
        """Decode the answer to a list request, and what of it does not fit; raises Malformed when it is no list."""
        unreadable: list[Unreadable] = []
        try:
            with _collector_paused():
                page = self._pages.decode(body)
        except (ValueError, RecursionError) as error:  # ValueError: not JSON, not UTF-8, not this view
            page, unreadable = self._decode_one_by_one(body, error)
        if not page.metadata.resource_version:
            raise Malformed("a list without resourceVersion")
        return page, unreadable

    def decode_lines(self, lines: bytes) -> list[AnyEvent[V] | Unreadable]:
        """Decode whole lines of a watch; raises Malformed when one of them is no event."""
        try:
            return [*self._events.decode_lines(lines)]
        except (ValueError, RecursionError):
            return [self._decode_line(line) for line in lines.splitlines() if line.strip()]

    def _decode_one_by_one(self, body: bytes, failure: Exception) -> tuple[Page[V], list[Unreadable]]:
        """A page with an item that does not fit the view: the others are read."""
        try:
            raw = _RAW_PAGES.decode(body)
            items: list[V] = []
            unreadable: list[Unreadable] = []
            for item in raw.items:
                try:
                    items.append(self._items.decode(item))
                except (ValueError, RecursionError) as error:
                    unreadable.append(_identify(item, error))
        except (ValueError, RecursionError):
            raise Malformed(f"not a page of the view: {failure}") from failure
        return Page(raw.metadata, items), unreadable

    def _decode_line(self, line: bytes) -> AnyEvent[V] | Unreadable:
        try:
            return self._events.decode(line)
        except (ValueError, RecursionError) as error:
            try:
                return _identify(_RAW_EVENTS.decode(line).object, error)
            except (ValueError, RecursionError):
                raise Malformed(f"not a watch event of the view: {error}") from error


def _identify(item: msgspec.Raw, problem: Exception) -> Unreadable:
    """Which object does not fit the view; raises ValueError if it is no object of Kubernetes at all."""
    found = _IDENTITIES.decode(item).metadata
    return Unreadable(found.namespace, found.name, found.resource_version, str(problem))


@contextmanager
def _collector_paused() -> Iterator[None]:
    """No garbage collection while tens of thousands of containers are made that cannot be garbage yet.

    Measured on 10,000 pods in pages of 500: it halves the CPU time of filling a store with dictionaries.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class LineBuffer:
    """Cuts a stream of chunks at line ends; a line's bytes are copied once, however many chunks it spans."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size_bytes = 0

    def feed(self, chunk: bytes) -> bytes:
        """The lines that are complete with this chunk, line ends included; empty while there are none."""
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._keep(chunk)
            return b""
        complete = b"".join((*self._parts, chunk[:end])) if self._parts else chunk[:end]
        self._parts.clear()
        self._size_bytes = 0
        if end < len(chunk):
            self._keep(chunk[end:])
        return complete

    def _keep(self, part: bytes) -> None:
        self._parts.append(part)
        self._size_bytes += len(part)
        if self._size_bytes > MAX_LINE_BYTES:
            raise Malformed(f"a line of more than {MAX_LINE_BYTES} bytes")
