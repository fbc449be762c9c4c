"""A followed log over broken connections. The server's side is written by the server's own `Marker`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from urllib.parse import quote

from hypothesis import given, strategies

from runyard.app.log_store import LogPiece
from runyard.app.logs import Marker
from runyard.sdk.log_reader import LogLine, LogReader, StreamTitles

AT = datetime(2026, 11, 18, tzinfo=UTC)
Streams = dict[str, bytes]
Step = tuple[str, bytes]
"""A stream, and what it writes next."""


@dataclass
class Response:
    """What one connection would carry: headers, and the body from the streams and offsets there are."""

    headers: dict[str, str]
    body: bytes


def respond(stored: Streams, later: Sequence[Step], *, offset: int | None, ends_with: str | None = None) -> Response:
    """As `LogFollower` does: first what is stored, stream by stream, then what is written later."""
    marker = Marker()
    headers = {"x-log-marker": marker.text}
    starts = dict.fromkeys(stored, offset or 0)
    if len(stored) == 1:
        (name,) = stored
        headers |= {"x-log-stream": quote(name), "x-log-offset": str(starts[name])}
    positions = dict(starts)
    body, current = b"", None
    known = set(stored)
    for name, content in [*((name, stored[name][starts[name] :]) for name in stored), *later]:
        known.add(name)
        if not content:
            continue
        if name != current and len(known) > 1:
            body += marker.write(stream=name, offset=positions.get(name, 0))
        current = name
        body += marker.write_piece(LogPiece(offset=positions.get(name, 0), at=AT, content=content))
        positions[name] = positions.get(name, 0) + len(content)
    if ends_with is not None:
        body += marker.write(end=ends_with, offsets=positions)
    return Response(headers, body)


def split(body: bytes, cuts: Sequence[int]) -> Iterator[bytes]:
    places = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})
    for start, end in pairwise(places):
        yield body[start:end]


def list_lines(content: bytes) -> list[str]:
    lines = content.decode().split("\n")
    return lines if lines[-1] else lines[:-1]


def by_stream(lines: Sequence[LogLine], only: str | None = None) -> dict[str | None, list[str]]:
    found: dict[str | None, list[str]] = {}
    for line in lines:
        found.setdefault(line.stream or only, []).append(line.text)
    return found


def read(
    reader: LogReader, response: Response, *, cuts: Sequence[int] = (), broken_at: int | None = None
) -> list[LogLine]:
    body = response.body if broken_at is None else response.body[: broken_at % (len(response.body) + 1)]
    reader.begin(response.headers)
    found = [line for chunk in split(body, cuts) for line in reader.feed(chunk)]
    return [*found, *reader.finish()]


TEXTS = strategies.lists(
    strategies.sampled_from([b"a\n", b"same\n", b"\n", b"par", b"tial", b"end\n", b"\xc3\xa9\n"]), max_size=5
)
STEPS = strategies.lists(
    strategies.tuples(strategies.sampled_from(["p/main", "p/side"]), TEXTS.map(b"".join)), max_size=6
)
CUTS = strategies.lists(strategies.integers(0, 400), max_size=6)


@given(first=STEPS, second=STEPS, third=STEPS, cuts=CUTS, breaks=strategies.tuples(*[strategies.integers(0, 400)] * 2))
def test_no_line_is_lost_or_doubled_when_connections_break_anywhere(
    first: list[Step], second: list[Step], third: list[Step], cuts: list[int], breaks: tuple[int, int]
) -> None:
    reader, stored, lines = LogReader(), Streams(), list[LogLine]()
    for steps, broken_at in [(first, breaks[0]), (second, breaks[1]), (third, None)]:
        offset = reader.offset
        if offset is not None and len(stored) > 1:  # the server refuses it: 400 log.streams
            reader.give_up_offset()
            offset = reader.offset
        response = respond(stored, steps, offset=offset)
        for name, content in steps:
            if content:
                stored[name] = stored.get(name, b"") + content
        lines += read(reader, response, cuts=cuts, broken_at=broken_at)
    lines += reader.flush()
    expected = {name: list_lines(content) for name, content in stored.items() if content}
    only = next(iter(expected)) if len(expected) == 1 else None
    names = {line.stream for line in lines}
    if None in names and only is None:
        # The first stream had no name before the others began.
        only = next(name for name in stored if name not in names or name == next(iter(stored)))
    assert "".join(sorted(map(str, by_stream(lines, only)))) == "".join(sorted(expected))
    for stream, texts in by_stream(lines, only).items():
        # A line may be split in two where a newline of the server arrived alone; nothing is lost or doubled.
        assert "".join(texts) == "".join(expected[str(stream)])
        assert len(texts) <= len(expected[str(stream)]) + len(cuts) + 2
        assert texts == expected[str(stream)] or cuts or any(breaks)


def test_lines_are_whole_when_a_connection_breaks_in_the_middle_of_one() -> None:
    reader = LogReader()
    log = {"p/main": b"one\ntwo\nthree\n"}
    first = read(reader, respond({"p/main": b"one\ntwo\nth"}, [], offset=None))
    assert reader.offset == 10
    second = read(reader, respond(log, [], offset=reader.offset))
    assert [line.text for line in (*first, *second)] == ["one", "two", "three"]


def test_equal_lines_stay_when_the_log_is_read_again_from_its_start() -> None:
    reader = LogReader()
    log = {"p/main": b"x\nx\n", "p/side": b"y\n"}
    first = read(reader, respond(log, [], offset=None))
    log = {"p/main": b"x\nx\nx\n", "p/side": b"y\ny\n"}
    assert reader.offset is None
    second = read(reader, respond(log, [], offset=None))
    assert by_stream(first) == {"p/main": ["x", "x"], "p/side": ["y"]}
    assert by_stream(second) == {"p/main": ["x"], "p/side": ["y"]}


def test_partial_line_is_completed_when_another_stream_writes_between() -> None:
    steps = [("p/main", b"par"), ("p/side", b"between\n"), ("p/main", b"tial\n")]
    lines = read(LogReader(), respond({}, steps, offset=None))
    assert [line.text for line in lines] == ["between", "partial"]


def test_stream_gets_its_name_when_it_began_without_one() -> None:
    reader = LogReader()
    first = read(reader, respond({}, [("p/main", b"one\ntw")], offset=None))
    assert [(line.stream, line.text) for line in first] == [(None, "one")]
    again = respond({"p/main": b"one\ntwo\n", "p/side": b"s\n"}, [], offset=None)
    reader.give_up_offset()
    second = read(reader, again)
    assert [(line.stream, line.text) for line in second] == [("p/main", "two"), ("p/side", "s")]


def test_reason_is_kept_when_the_server_ends_the_response_early() -> None:
    reader = LogReader()
    lines = read(reader, respond({"p/main": b"one\ntw"}, [], offset=None, ends_with="draining"))
    assert ([line.text for line in lines], reader.end_reason, reader.offset) == (["one"], "draining", 6)
    assert [line.text for line in read(reader, respond({"p/main": b"one\ntwo\n"}, [], offset=6))] == ["two"]
    assert reader.end_reason is None


def test_gap_is_told_once_when_it_is_sent_again() -> None:
    reader, texts = LogReader(), []
    for _ in range(2):
        marker = Marker()
        reader.begin({"x-log-marker": marker.text, "x-log-stream": "p/main", "x-log-offset": "0"})
        gap = marker.write_piece(LogPiece(offset=4, at=AT, until=AT, gap="rotated"))
        texts += [(line.text, line.is_gap) for line in reader.feed(b"one\n" + gap + b"two\n")]
    assert [text for text, is_gap in texts if not is_gap] == ["one", "two"]
    (told,) = [text for text, is_gap in texts if is_gap]
    assert told.startswith("[gap in the log: rotated, from 2026-11-18")


def test_line_of_a_program_is_a_line_when_it_looks_like_a_marker() -> None:
    log = {"p/main": b'#runyard-0000000000000000 {"end": "x"}\nok\n'}
    reader = LogReader()
    lines = read(reader, respond(log, [], offset=None))
    assert [line.text for line in lines] == ['#runyard-0000000000000000 {"end": "x"}', "ok"]
    assert reader.end_reason is None


def test_memory_is_bounded_when_a_line_never_ends() -> None:
    reader = LogReader()
    reader.begin({"x-log-marker": "#runyard-1", "x-log-stream": "p/main", "x-log-offset": "0"})
    lines = [line for _ in range(40) for line in reader.feed(b"x" * 100_000)]
    assert sum(len(line.text) for line in (*lines, *reader.finish(), *reader.flush())) == 4_000_000
    assert max(len(line.text) for line in lines) < 2_500_000


def test_titles_name_pods_when_there_is_more_than_one() -> None:
    titles = StreamTitles()
    lines = [
        LogLine(text="a", stream="p-1/main", is_introduced=True),
        LogLine(text="b", stream="p-1/main"),
        LogLine(text="c", stream="p-1/side/1", is_introduced=True),
        LogLine(text="d", stream="p-2/main", is_introduced=True),
    ]
    assert list(map(titles.make, lines)) == ["==> main <==", None, "==> side/1 <==", "==> p-2/main <=="]
