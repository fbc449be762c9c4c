import asyncio
import random
from datetime import datetime

import pytest

from runyard.app.log_store import LogStore, Stream
from runyard.logs import LogsUnavailable
from tests.contract.logs.builders import START, STREAM, after, read_all, read_pieces, write
from tests.contract.logs.conftest import OpenLogs


async def test_bytes_come_back_with_their_times_when_appended(logs: LogStore) -> None:
    odd = "drei \u20ac\0".encode() + b"\xff\xfe"
    assert await write(logs, b"one\n", b"two\n", odd) == 8 + len(odd)
    pieces = await logs.read(STREAM)
    assert [(piece.offset, piece.at, piece.content) for piece in pieces] == [
        (0, START, b"one\n"),
        (4, after(1), b"two\n"),
        (8, after(2), odd),
    ]
    assert all(piece.gap is None for piece in pieces)


async def test_nothing_is_stored_twice_when_a_writer_repeats_itself(logs: LogStore) -> None:
    await write(logs, b"0123", b"4567")
    assert await logs.append(STREAM, b"0123", offset=0, at=after(9)) == 8
    assert await logs.append(STREAM, b"4567", offset=4, at=after(9)) == 8
    assert await logs.append(STREAM, b"456789", offset=4, at=after(9)) == 10
    assert await logs.append(STREAM, b"", offset=10, at=after(9)) == 10
    assert await read_all(logs) == b"0123456789"


async def test_hole_is_refused_when_an_offset_is_past_the_end(logs: LogStore) -> None:
    with pytest.raises(ValueError, match="offset 1 "):
        await logs.append(STREAM, b"x", offset=1, at=START)
    await write(logs, b"abc")
    with pytest.raises(ValueError, match="offset 4 "):
        await logs.append(STREAM, b"x", offset=4, at=START)
    with pytest.raises(ValueError, match="offset -1 "):
        await logs.append(STREAM, b"x", offset=-1, at=START)
    assert await read_all(logs) == b"abc"


async def test_nothing_is_made_when_nothing_is_appended(logs: LogStore) -> None:
    assert await logs.append(STREAM, b"", offset=0, at=START) == 0
    assert await logs.list_streams("run-1") == []


async def test_large_content_comes_back_when_it_is_many_chunks(logs: LogStore) -> None:
    content = random.Random(1).randbytes(1_500_000)
    assert await logs.append(STREAM, content, offset=0, at=START) == len(content)
    assert await read_all(logs) == content
    assert await read_all(logs, offset=700_001, limit=100_000) == content[700_001:]
    pieces = await logs.read(STREAM, offset=5, limit=1000)
    assert b"".join(piece.content for piece in pieces) == content[5:1005]


async def test_small_pieces_keep_offsets_and_times_when_they_become_chunks(logs: LogStore) -> None:
    lines = [f"{number:05} {'x' * 6000}\n".encode() for number in range(25)]
    await write(logs, *lines)
    pieces = await read_pieces(logs)
    assert [piece.content for piece in pieces] == lines
    assert [piece.at for piece in pieces] == [after(second) for second in range(25)]


async def test_tiny_pieces_come_back_when_there_are_many(logs: LogStore) -> None:
    lines = [b"%d\n" % number for number in range(80)]
    await write(logs, *lines)
    assert await read_all(logs) == b"".join(lines)
    assert await read_all(logs, limit=70) == b"".join(lines)


async def test_everything_is_there_when_opened_again(open_store: OpenLogs) -> None:
    first = open_store()
    lines = [f"{number} {'y' * 9000}\n".encode() for number in range(9)]
    size = await write(first, *lines)
    await first.mark_gap(STREAM, since=after(100), until=after(200), cause="node lost")
    await first.close()
    second = open_store()
    assert await read_all(second) == b"".join(lines)
    assert (await second.read(STREAM, offset=size))[0].gap == "node lost"
    assert await second.append(STREAM, b"more", offset=size, at=after(300)) == size + 4


async def test_other_process_sees_and_goes_on_when_two_have_it_open(open_store: OpenLogs) -> None:
    one, other = open_store(), open_store()
    size = await write(one, *[b"a" * 7000] * 10)
    assert await read_all(other) == b"a" * size
    for _ in range(10):
        size = await other.append(STREAM, b"b" * 7000, offset=size, at=after(100))
    assert await read_all(one) == b"a" * 70_000 + b"b" * 70_000
    assert await one.append(STREAM, b"c", offset=size, at=after(200)) == size + 1
    assert await read_all(other, offset=139_999) == b"bc"


async def test_streams_do_not_mix_when_written_at_once(logs: LogStore) -> None:
    streams = [Stream("run-1", f"pod-{number}", "main") for number in range(10)]

    async def fill(number: int, stream: Stream) -> None:
        await write(logs, *[b"%d\n" % number] * 5, stream=stream)

    await asyncio.gather(*(fill(number, stream) for number, stream in enumerate(streams)))
    for number, stream in enumerate(streams):
        assert await read_all(logs, stream=stream) == b"%d\n" % number * 5


async def test_bytes_are_stored_once_when_the_same_append_comes_many_times_at_once(logs: LogStore) -> None:
    sizes = await asyncio.gather(*(logs.append(STREAM, b"same\n", offset=0, at=START) for _ in range(10)))
    assert set(sizes) == {5}
    assert await read_all(logs) == b"same\n"


async def test_bytes_are_stored_once_when_two_servers_append_the_same_at_once(open_store: OpenLogs) -> None:
    stores = [open_store(), open_store()]
    lines = [b"%d %s\n" % (number, b"x" * 9000) for number in range(10)]

    async def fill(store: LogStore) -> None:
        for number, line in enumerate(lines):
            await store.append(STREAM, line, offset=number * len(line), at=after(number))

    await asyncio.gather(*map(fill, stores))
    for store in stores:
        assert await read_all(store) == b"".join(lines)


async def test_others_are_kept_when_one_append_of_many_is_refused(logs: LogStore) -> None:
    answers = await asyncio.gather(
        *(logs.append(Stream("r", str(n), "c"), b"x", offset=n % 2, at=START) for n in range(6)), return_exceptions=True
    )
    assert [isinstance(answer, ValueError) for answer in answers] == [False, True] * 3
    assert len(await logs.list_streams("r")) == 3


@pytest.mark.parametrize("name", ["", "x" * 1001, "half \ud800"])
async def test_names_are_refused_when_they_cannot_be_kept(logs: LogStore, name: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - some are Python's own words
        await logs.append(Stream("r", name, "c"), b"x", offset=0, at=START)
    with pytest.raises(ValueError):  # noqa: PT011
        await logs.mark_gap(Stream("r", "p", name), since=START, until=START, cause="lost")


async def test_time_is_refused_when_it_has_no_zone(logs: LogStore) -> None:
    with pytest.raises(ValueError, match="time zone"):
        await logs.append(STREAM, b"x", offset=0, at=datetime(2026, 1, 1))  # noqa: DTZ001 - that is the point


async def test_store_can_be_closed_twice_when_it_was_used(logs: LogStore, kind: str) -> None:
    await write(logs, b"x")
    await logs.close()
    await logs.close()
    if kind != "s3":
        with pytest.raises(LogsUnavailable, match="closed"):
            await write(logs, b"x")
