"""From bytes to lines: stamps, pieces, and the kubelet's voice."""

import random
from datetime import UTC, datetime

import pytest

from runyard.kube.streams.errors import LogsUnavailable
from runyard.kube.streams.loglines import MAX_LINE_BYTES, LineParser, LogLine, LogPosition

GONE = b"unable to retrieve container logs for containerd://" + b"a" * 64
AT = b"2026-11-15T11:02:39.798736747Z"
AT_NS = 1794740559798736747


def parse(data: bytes, *, is_since: bool = False, step: int | None = None) -> list[LogLine]:
    """The lines of a whole answer, fed in steps."""
    parser = LineParser(is_since=is_since)
    step = step or len(data) or 1
    lines: list[LogLine] = []
    for start in range(0, len(data), step):
        lines += parser.feed(data[start : start + step])
        parser.check()
    parser.end()
    rest = parser.cut_line()
    return [*lines, rest] if rest else lines


@pytest.mark.parametrize(
    ("stamp", "nanoseconds"),
    [
        (AT, AT_NS),
        (b"2026-11-15T12:02:39.798736747+01:00", AT_NS),
        (b"2026-11-15T05:32:39.798736747-05:30", AT_NS),
        (b"2026-11-15T11:02:39.7Z", AT_NS // 10**9 * 10**9 + 700_000_000),
        (b"2026-11-15T11:02:39Z", AT_NS // 10**9 * 10**9),
        (b"1969-12-31T23:59:59.5Z", -500_000_000),
    ],
)
def test_the_moment_is_exact_when_a_line_is_stamped(stamp: bytes, nanoseconds: int) -> None:
    (line,) = parse(stamp + b" a b \r\n")
    assert line == LogLine(nanoseconds, b"a b \r")


def test_the_moment_is_a_datetime_when_it_is_asked_for_as_one() -> None:
    assert LogLine(AT_NS, b"").written_at == datetime(2026, 11, 15, 11, 2, 39, 798736, tzinfo=UTC)


def test_lines_are_the_same_when_the_bytes_come_in_any_steps() -> None:
    rng = random.Random(3)
    body = b"".join(AT + b" " + rng.randbytes(rng.randrange(200)).replace(b"\n", b"") + b"\n" for _ in range(50))
    body += AT + b" no newline"
    whole = parse(body)
    assert len(whole) == 51
    assert whole[-1] == LogLine(AT_NS, b"no newline", is_complete=False)
    assert all(parse(body, step=step) == whole for step in (1, 2, 3, 7, 31, 64, 1000))


@pytest.mark.parametrize("length", [MAX_LINE_BYTES - 1, MAX_LINE_BYTES, MAX_LINE_BYTES + 1, 3 * MAX_LINE_BYTES])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_long_lines_are_cut_at_the_same_places_when_the_bytes_come_in_any_steps(length: int, end: bytes) -> None:
    text = random.Random(length).randbytes(length).replace(b"\n", b"x")
    body = AT + b" " + text + end
    pieces = parse(body)
    assert b"".join(piece.text for piece in pieces) == text
    assert all(len(piece.text) <= MAX_LINE_BYTES for piece in pieces)
    assert {piece.written_ns for piece in pieces} == {AT_NS}
    assert [piece.is_complete for piece in pieces] == [False] * (len(pieces) - 1) + [end == b"\n"]
    for step in (10_007, MAX_LINE_BYTES, MAX_LINE_BYTES + 31):
        assert parse(body, step=step) == pieces


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (GONE, "unable to retrieve container logs"),
        (GONE + b"\n", "unable to retrieve container logs"),
        (AT + b" a line\nrpc error: code = NotFound desc = gone", "rpc error"),
        (b"failed to open log file \xff", "failed to open log file"),
        (b"2026-13-45T99:99:99Z no such day\n", "no such day"),
    ],
)
def test_the_kubelet_is_heard_when_a_line_has_no_moment(body: bytes, sentence: str) -> None:
    for step in (1, len(body)):
        with pytest.raises(LogsUnavailable, match=sentence):
            parse(body, step=step)


def test_lines_before_are_given_when_the_kubelet_speaks_after_them() -> None:
    parser = LineParser(is_since=False)
    assert parser.feed(AT + b" a line\nrpc error\n" + AT + b" never\n") == [LogLine(AT_NS, b"a line")]
    with pytest.raises(LogsUnavailable, match="rpc error"):
        parser.check()


def test_a_program_is_not_the_kubelet_when_it_prints_its_words() -> None:
    body = AT + b" " + GONE + b"\n" + AT + b" " + AT + b" twice\n" + AT + b" " + GONE
    assert [line.text for line in parse(body)] == [GONE, AT + b" twice", GONE]


def test_the_end_of_an_earlier_line_is_left_out_when_lines_since_a_moment_were_asked_for() -> None:
    body = b"tail of a long line\n" + AT + b" a\n"
    assert [line.text for line in parse(body, is_since=True)] == [b"a"]
    with pytest.raises(LogsUnavailable, match="tail of a long"):
        parse(body)
    with pytest.raises(LogsUnavailable, match="unable to retrieve"):
        parse(GONE + b"\n", is_since=True)
    with pytest.raises(LogsUnavailable, match="unable to retrieve"):
        parse(GONE, is_since=True)
    with pytest.raises(LogsUnavailable, match="second"):
        parse(b"tail\nsecond\n", is_since=True)


def test_the_end_of_an_earlier_line_is_left_out_when_it_is_longer_than_a_piece() -> None:
    body = b"x" * (3 * MAX_LINE_BYTES) + b"\n" + AT + b" a\n"
    for step in (MAX_LINE_BYTES // 3, MAX_LINE_BYTES + 1, len(body)):
        assert [line.text for line in parse(body, is_since=True, step=step)] == [b"a"]


@pytest.mark.parametrize("length", range(1, len(AT) + 1))
def test_a_piece_of_a_stamp_is_no_sentence_when_a_node_died_while_writing_it(length: int) -> None:
    assert parse(AT + b" a\n" + AT[:length]) == [LogLine(AT_NS, b"a")]


def test_an_empty_answer_has_no_lines_when_nothing_was_written() -> None:
    assert parse(b"") == []
    assert parse(AT + b" \n") == [LogLine(AT_NS, b"")]


def test_a_position_counts_lines_of_one_moment_when_they_share_it() -> None:
    position = LogPosition.after(LogLine(5, b"a"), None)
    assert position == LogPosition(5, 1)
    position = LogPosition.after(LogLine(5, b"a"), position)
    assert position == LogPosition(5, 2)
    assert LogPosition.after(LogLine(4, b"a"), position) == LogPosition(4, 1)


def test_a_position_stays_before_a_line_when_that_was_cut() -> None:
    position = LogPosition(5, 1)
    assert LogPosition.after(LogLine(6, b"cu", is_complete=False), position) == position
    piece = LogLine(6, bytes(MAX_LINE_BYTES), is_complete=False)
    assert LogPosition.after(piece, position) == LogPosition(6, 1)


@pytest.mark.parametrize(
    "position",
    [
        LogPosition(0, 0),
        LogPosition(AT_NS, 3),
        LogPosition(AT_NS + 1, 1, f"containerd://{64 * 'a'}", 12),
    ],
)
def test_position_is_the_same_when_it_was_a_text(position: LogPosition) -> None:
    assert LogPosition.parse(str(position)) == position


@pytest.mark.parametrize(
    "text", ["", "1.2.3", "a.2.3.c", "1.2.3.c d", "-1.2.3.c", f"1.2.3.{300 * 'c'}", "1.2.3.c\n", "²"]
)
def test_position_is_refused_when_its_text_is_not_one(text: str) -> None:
    with pytest.raises(ValueError, match="not a position"):
        LogPosition.parse(text)


def test_instance_stays_the_same_when_a_position_advances() -> None:
    begin = LogPosition(0, 0, "c://1", 2)
    first = LogPosition.after(LogLine(AT_NS, b"a"), begin)
    assert first == LogPosition(AT_NS, 1, "c://1", 2)
    assert LogPosition.after(LogLine(AT_NS, b"b"), first) == LogPosition(AT_NS, 2, "c://1", 2)
    assert LogPosition.after(LogLine(0, b"at zero"), begin) == LogPosition(0, 1, "c://1", 2)


def read_blocks(data: bytes, *, step: int, is_since: bool = False) -> tuple[bytes, LogPosition, str | None]:
    """What an answer gives in blocks: the bytes, the position behind them, and the kubelet's complaint."""
    parser, position = LineParser(is_since=is_since), LogPosition(0, 0)
    content, complaint = b"", None
    try:
        for start in range(0, len(data), step):
            block = parser.feed_block(data[start : start + step])
            if block is not None:
                content, position = content + block.content, position.behind(block)
            parser.check()
        parser.end()
    except LogsUnavailable as error:
        complaint = error.message
    return content, position, complaint


def read_lines(data: bytes, *, step: int, is_since: bool = False) -> tuple[bytes, LogPosition, str | None]:
    """The same line by line."""
    parser, position = LineParser(is_since=is_since), LogPosition(0, 0)
    content, complaint = b"", None
    try:
        for start in range(0, len(data), step):
            for line in parser.feed(data[start : start + step]):
                content += line.text + b"\n" * line.is_complete
                position = LogPosition.after(line, position) or position
            parser.check()
        parser.end()
    except LogsUnavailable as error:
        complaint = error.message
    return content, position, complaint


def test_blocks_equal_lines_when_an_answer_is_anything() -> None:
    stamps = [AT, b"2026-11-15T11:02:39.798736748Z", b"2026-11-15T12:02:39.7+01:00"]
    chance = random.Random(14)
    for _ in range(300):
        count = chance.randrange(1, 12)
        lines = [
            chance.choice([*stamps[:2] * 6, *stamps]) + b" " + chance.choice([b"", b"a", AT + b" b", b"\r\0\xff"])
            for _ in range(count)
        ]
        if chance.random() < 0.3:
            lines.insert(chance.randrange(count), chance.choice([GONE, b"", b"no stamp", b" " + AT]))
        data = b"\n".join(lines) + chance.choice([b"", b"\n"])
        step, is_since = chance.choice([1, 3, 17, 1000]), chance.random() < 0.5
        assert read_blocks(data, step=step, is_since=is_since) == read_lines(data, step=step, is_since=is_since)


def test_blocks_equal_lines_when_a_line_is_longer_than_a_piece() -> None:
    data = AT + b" a\n" + AT + b" " + b"x" * (2 * MAX_LINE_BYTES + 5) + b"\n" + AT + b" b\n"
    for step in (1 << 16, 1 << 22):
        assert read_blocks(data, step=step) == read_lines(data, step=step)
