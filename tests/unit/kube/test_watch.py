"""Pages, events and line cutting, from bytes."""

import random

import msgspec
import pytest

from runyard.kube.errors import Gone, Malformed, ServerError
from runyard.kube.views import Metadata, View
from runyard.kube.watch import (
    Added,
    Bookmark,
    Deleted,
    Failure,
    LineBuffer,
    Modified,
    WatchError,
    Wire,
    failure_to_error,
)


class PodStatus(msgspec.Struct, frozen=True, gc=False):
    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")


class PodView(View, frozen=True):
    status: PodStatus = PodStatus()


POD = (
    b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7",'
    b'"managedFields":[{"manager":"x"}]},"spec":{"containers":[{"name":"c"}]},'
    b'"status":{"phase":"Running","podIP":"10.0.0.1","conditions":[]}}'
)


def line(kind: str, body: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), body)


def test_event_is_of_its_type_when_its_line_is_whole() -> None:
    wire = Wire(PodView)
    view = PodView(Metadata("a", "n", "u", "7"), PodStatus("Running", "10.0.0.1"))

    events = wire.decode_lines(line("ADDED", POD) + line("MODIFIED", POD) + line("DELETED", POD))

    assert events == [Added(view), Modified(view), Deleted(view)]


def test_only_named_fields_are_kept_when_the_view_is_a_struct() -> None:
    [event] = Wire(PodView).decode_lines(line("ADDED", POD))

    assert isinstance(event, Added)
    assert event.object.__struct_fields__ == ("metadata", "status")


def test_bookmark_is_read_when_its_object_is_hollow() -> None:
    hollow = b'{"kind":"Pod","metadata":{"resourceVersion":"12"},"spec":{"containers":null},"status":null}'

    [event] = Wire(PodView).decode_lines(line("BOOKMARK", hollow))

    assert isinstance(event, Bookmark)
    assert event.object.metadata.resource_version == "12"


def test_error_event_is_gone_when_the_version_expired() -> None:
    status = b'{"kind":"Status","metadata":{},"message":"too old: 1 (5)","reason":"Expired","code":410}'

    [event] = Wire(PodView).decode_lines(line("ERROR", status))

    assert isinstance(event, Failure)
    assert isinstance(failure_to_error(event), Gone)


def test_error_event_keeps_its_cause_when_the_server_failed() -> None:
    status = b'{"kind":"Status","metadata":{},"message":"etcd went away","reason":"InternalError","code":500}'

    [event] = Wire(PodView).decode_lines(line("ERROR", status))

    assert isinstance(event, Failure)
    error = failure_to_error(event)
    assert isinstance(error, WatchError)
    assert isinstance(error.__cause__, ServerError)
    assert "etcd went away" in str(error)


@pytest.mark.parametrize(
    "garbage",
    [
        b"<html>login</html>",
        b"{}",
        b'{"type":"ADDED"}',
        b'{"type":"SURPRISE","object":{}}',
        b'{"type":"ADDED","object":null}',
        b'{"type":"ADDED","object":{"metadata":{}}}',
        b'{"type":"ADDED","object":{"metadata":{"name":"\xff"}}}',
        b'{"type":"ERROR","object":' + b"[" * 100_000,
        b"\x00",
    ],
)
def test_line_is_malformed_when_it_is_no_event_of_the_view(garbage: bytes) -> None:
    with pytest.raises(Malformed) as failure:
        Wire(PodView).decode_lines(line("ADDED", POD) + garbage + b"\n")

    assert failure.value.__cause__ is not None


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"<html>login</html>",
        b'{"kind":"Status","metadata":{},"status":"Failure","code":500}',
        b'{"metadata":{"resourceVersion":"5"}}',
        b'{"metadata":{},"items":[]}',
        b'{"metadata":{"resourceVersion":"5"},"items":[{}]}',
    ],
)
def test_page_is_malformed_when_it_is_no_list_of_the_view(garbage: bytes) -> None:
    with pytest.raises(Malformed):
        Wire(PodView).decode_page(garbage)


def test_page_has_no_items_when_go_wrote_null() -> None:
    page, _ = Wire(PodView).decode_page(b'{"metadata":{"resourceVersion":"5"},"items":null}')

    assert not page.items
    assert page.metadata.resource_version == "5"


def test_page_names_its_successor_when_there_is_one() -> None:
    page, _ = Wire(dict).decode_page(
        b'{"metadata":{"resourceVersion":"5","continue":"t0k","remainingItemCount":3},"items":[%s]}' % POD
    )

    assert page.metadata.continue_token == "t0k"
    assert page.items is not None
    assert page.items[0]["spec"] == {"containers": [{"name": "c"}]}


def test_lines_come_out_unchanged_when_chunks_cut_them_anywhere() -> None:
    seed = random.Random(20261115)
    for _ in range(300):
        lines = [seed.randbytes(seed.choice((0, 1, 5, 400))).replace(b"\n", b" ") + b"\n" for _ in range(20)]
        stream = b"".join(lines) + b"unfinished"
        cuts = sorted(seed.randrange(len(stream)) for _ in range(seed.randrange(60)))
        buffer = LineBuffer()

        chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
        completed = [buffer.feed(chunk) for chunk in chunks]

        assert all(part == b"" or part.endswith(b"\n") for part in completed)
        assert b"".join(completed) == b"".join(lines)


def test_huge_line_is_copied_once_when_it_comes_in_tiny_chunks() -> None:
    body = b'{"metadata":{"name":"big"},"data":{"k":"%s"}}' % (b"x" * 3_000_000)
    stream = line("ADDED", body)
    buffer = LineBuffer()

    parts = [buffer.feed(stream[start : start + 16]) for start in range(0, len(stream), 16)]

    assert parts[-1] == stream
    assert not any(parts[:-1])
    [event] = Wire(dict).decode_lines(parts[-1])
    assert isinstance(event, Added)
    assert len(event.object["data"]["k"]) == 3_000_000


def test_line_is_refused_when_it_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runyard.kube.watch.MAX_LINE_BYTES", 1000)
    buffer = LineBuffer()
    assert [buffer.feed(b"x" * 100) for _ in range(10)] == [b""] * 10

    with pytest.raises(Malformed, match="more than 1000 bytes"):
        buffer.feed(b"x")


def test_lines_are_taken_for_ever_when_each_of_them_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a line under way is bounded: a watch lives for minutes and brings far more than that."""
    monkeypatch.setattr("runyard.kube.watch.MAX_LINE_BYTES", 1000)
    buffer = LineBuffer()
    assert buffer.feed(b"x" * 600) == b""
    for _ in range(10):
        assert buffer.feed(b"\n" + b"x" * 600) == b"x" * 600 + b"\n"
