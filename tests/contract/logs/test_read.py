import random

import pytest

from runyard.app.log_store import LogStore, Stream
from tests.contract.logs.builders import START, STREAM, after, read_all, read_pieces, write
from tests.contract.logs.conftest import OpenLogs

GONE = Stream("run-0", "nobody", "main")


async def test_nothing_is_found_when_there_is_no_such_stream(logs: LogStore) -> None:
    assert await logs.read(GONE) == []
    assert await logs.find_since(GONE, START) == 0
    assert await logs.find_tail(GONE, 5) == 0
    assert await logs.list_streams("run-0") == []


async def test_reading_ends_when_there_is_no_more(logs: LogStore) -> None:
    size = await write(logs, b"abc")
    assert await logs.read(STREAM, offset=size) == []
    assert await logs.read(STREAM, offset=size + 100) == []
    with pytest.raises(ValueError, match="before the beginning"):
        await logs.read(STREAM, offset=-1)


async def test_piece_is_cut_when_reading_begins_or_ends_within_it(logs: LogStore) -> None:
    await write(logs, b"0123456789", b"abcdef")
    pieces = await logs.read(STREAM, offset=7, limit=5)
    assert [(piece.offset, piece.content) for piece in pieces] == [(7, b"789"), (10, b"ab")]


async def test_gaps_stand_in_their_places_when_bytes_come_before_and_after(logs: LogStore) -> None:
    await logs.mark_gap(STREAM, since=after(-9), until=after(-5), cause="not there yet")
    await write(logs, b"one\n")
    await logs.mark_gap(STREAM, since=after(1), until=after(2), cause="node lost")
    await logs.mark_gap(STREAM, since=after(3), until=after(4), cause="again \u2620")
    await logs.append(STREAM, b"two\n", offset=4, at=after(5))
    await logs.mark_gap(STREAM, since=after(6), until=after(7), cause="gone")
    pieces = await logs.read(STREAM)
    assert [(piece.offset, piece.gap, piece.content) for piece in pieces] == [
        (0, "not there yet", b""),
        (0, None, b"one\n"),
        (4, "node lost", b""),
        (4, "again \u2620", b""),
        (4, None, b"two\n"),
        (8, "gone", b""),
    ]
    assert (pieces[2].at, pieces[2].until) == (after(1), after(2))
    assert [piece.gap for piece in await read_pieces(logs, limit=2) if piece.gap][:4] == [
        "not there yet",
        "node lost",
        "again \u2620",
        "gone",
    ]


async def test_gap_comes_with_every_read_at_the_end_when_nothing_follows_it(logs: LogStore) -> None:
    size = await write(logs, b"one\n")
    assert await logs.read(STREAM, offset=size) == []
    await logs.mark_gap(STREAM, since=after(1), until=after(2), cause="node lost")
    for _ in range(2):
        assert [piece.gap for piece in await logs.read(STREAM, offset=size)] == ["node lost"]


async def test_stream_is_listed_when_nothing_but_a_gap_is_known_of_it(logs: LogStore) -> None:
    await logs.mark_gap(STREAM, since=after(0), until=after(5), cause="could not be read")
    (info,) = await logs.list_streams("run-1")
    assert (info.stream, info.size, info.first_at, info.last_at) == (STREAM, 0, None, None)
    assert [piece.gap for piece in await logs.read(STREAM)] == ["could not be read"]


async def test_streams_are_listed_in_the_order_in_which_they_began(logs: LogStore) -> None:
    late, early, gap = (Stream("run-1", name, "main") for name in ("a-late", "z-early", "m-gap"))
    await logs.append(late, b"x", offset=0, at=after(50))
    await logs.append(early, b"xy", offset=0, at=after(10))
    await logs.append(early, b"z", offset=2, at=after(60))
    await logs.mark_gap(gap, since=after(20), until=after(30), cause="lost")
    await logs.append(Stream("run-10", "other", "main"), b"x", offset=0, at=START)
    found = await logs.list_streams("run-1")
    assert [info.stream for info in found] == [early, gap, late]
    assert (found[0].size, found[0].first_at, found[0].last_at) == (3, after(10), after(60))


async def test_offset_of_a_time_is_found_when_bytes_were_written_then_or_later(logs: LogStore) -> None:
    lines = [f"{number:03}{'x' * 5000}\n".encode() for number in range(30)]
    size = await write(logs, *lines)
    length = len(lines[0])
    for second in (0, 1, 12, 13, 14, 29):
        assert await logs.find_since(STREAM, after(second)) == second * length
        assert await logs.find_since(STREAM, after(second - 0.5)) == second * length
    assert await logs.find_since(STREAM, after(-100)) == 0
    assert await logs.find_since(STREAM, after(29.000001)) == size


async def test_first_such_bytes_are_found_when_the_clock_went_back(logs: LogStore) -> None:
    await logs.append(STREAM, b"a", offset=0, at=after(10))
    await logs.append(STREAM, b"b", offset=1, at=after(5))
    await logs.append(STREAM, b"c", offset=2, at=after(12))
    assert await logs.find_since(STREAM, after(6)) == 0
    assert await logs.find_since(STREAM, after(11)) == 2
    (info,) = await logs.list_streams("run-1")
    assert info.last_at == after(12)


@pytest.mark.parametrize(
    ("content", "lines", "tail"),
    [
        (b"a\nb\nc\n", 1, b"c\n"),
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 2, b"b\nc"),
        (b"a\nb\nc\n", 9, b"a\nb\nc\n"),
        (b"a\nb\nc\n", 3, b"a\nb\nc\n"),
        (b"a\n\n\n", 2, b"\n\n"),
        (b"a", 1, b"a"),
        (b"\n", 1, b"\n"),
        (b"a\nb\n", 0, b""),
        (b"a\nb\n", -3, b""),
    ],
)
async def test_tail_has_so_many_lines_when_asked(logs: LogStore, content: bytes, lines: int, tail: bytes) -> None:
    await write(logs, content)
    assert await read_all(logs, offset=await logs.find_tail(STREAM, lines)) == tail


async def test_tail_reaches_back_over_chunks_when_lines_are_long(logs: LogStore) -> None:
    lines = [f"{number} {'x' * 30_000}\n".encode() for number in range(12)]
    await write(logs, *lines)
    for number in (1, 3, 7, 11):
        assert await read_all(logs, offset=await logs.find_tail(STREAM, number)) == b"".join(lines[-number:])
    await logs.append(STREAM, b"\n" + b"y" * 200_000, offset=len(b"".join(lines)), at=after(99))
    assert await read_all(logs, offset=await logs.find_tail(STREAM, 2)) == b"\n" + b"y" * 200_000


async def test_store_agrees_with_a_model_when_used_at_random(open_store: OpenLogs, kind: str) -> None:
    chance = random.Random(7)
    logs, content, times = open_store(), b"", list[tuple[int, int]]()
    for step in range(12 if kind == "s3" else 80):
        if chance.random() < 0.1:
            await logs.close()
            logs = open_store()
        added = chance.randbytes(chance.choice((1, 50, 3000, 20_000))).replace(b"\0", b"\n")
        back = chance.randrange(min(len(content), 2000) + 1)
        repeated = content[len(content) - back :] + added
        assert await logs.append(STREAM, repeated, offset=len(content) - back, at=after(step)) == len(content + added)
        times.append((len(content), step))
        content += added
        start = chance.randrange(len(content))
        assert await read_all(logs, offset=start, limit=chance.choice((20_000, 50_000, 1 << 20))) == content[start:]
        offset, second = chance.choice(times)
        assert await logs.find_since(STREAM, after(second)) == offset
        lines = chance.randrange(1, 400)
        tail = await logs.find_tail(STREAM, lines)
        kept = content.removesuffix(b"\n").split(b"\n")[-lines:]
        assert content[tail:].removesuffix(b"\n").split(b"\n") == kept
    (info,) = await logs.list_streams("run-1")
    assert info.size == len(content)
