"""An engine's position is stored with the bytes or the gap before it, and a restarted container is another stream."""

import pytest

from runyard.app.log_store import LARGEST_POSITION_BYTES, LogStore, Stream, StreamInfo
from runyard.app.ports import Stale
from tests.contract.logs.builders import START, STREAM, after, read_all, write
from tests.contract.logs.conftest import OpenLogs


async def get_info(logs: LogStore, stream: Stream = STREAM) -> StreamInfo:
    (info,) = [info for info in await logs.list_streams(stream.run_uid) if info.stream == stream]
    return info


async def find_position(logs: LogStore) -> tuple[str | None, int]:
    info = await get_info(logs)
    return info.position, info.position_offset


async def test_position_is_that_of_the_last_bytes_when_each_append_brings_one(open_store: OpenLogs) -> None:
    logs = open_store()
    await logs.append(STREAM, b"one\n", offset=0, at=START, position="p1 \u2620")
    assert await find_position(logs) == ("p1 \u2620", 4)
    await logs.append(STREAM, b"two\n", offset=4, at=after(1), position="p2")
    assert await find_position(open_store()) == ("p2", 8)
    assert await read_all(logs) == b"one\ntwo\n"


async def test_position_is_none_when_no_append_has_brought_one(logs: LogStore) -> None:
    await write(logs, b"one\n")
    assert await find_position(logs) == (None, 0)


async def test_position_stays_with_its_bytes_when_older_ones_are_repeated(logs: LogStore) -> None:
    await logs.append(STREAM, b"0123456789", offset=0, at=START, position="ten")
    assert await logs.append(STREAM, b"01234", offset=0, at=after(1), position="five") == 10
    assert await logs.append(STREAM, b"", offset=10, at=after(1), position="none") == 10
    assert await find_position(logs) == ("ten", 10)
    assert await logs.append(STREAM, b"89ab", offset=8, at=after(1), position="twelve") == 12
    assert await find_position(logs) == ("twelve", 12)


async def test_position_says_its_offset_when_bytes_without_one_follow(open_store: OpenLogs) -> None:
    logs = open_store()
    await logs.append(STREAM, b"0123", offset=0, at=START, position="four")
    await logs.append(STREAM, b"4567", offset=4, at=after(1))
    await logs.mark_gap(STREAM, since=after(2), until=after(3), cause="lost")
    await logs.append(STREAM, b"89", offset=8, at=after(4))
    assert await find_position(open_store()) == ("four", 4)


async def test_position_is_kept_when_bytes_become_chunks(open_store: OpenLogs) -> None:
    logs, size = open_store(), 0
    for number in range(40):
        size = await logs.append(STREAM, b"x" * 7000, offset=size, at=after(number), position=f"p{number}")
        if number % 13 == 0:
            assert await find_position(logs) == (f"p{number}", size)
            assert await find_position(open_store()) == (f"p{number}", size)
    assert await find_position(open_store()) == ("p39", size)
    size = await logs.append(STREAM, b"y" * 1_000_000, offset=size, at=after(99), position="large")
    assert await find_position(open_store()) == ("large", size)
    assert len(await read_all(logs)) == size


async def test_position_is_that_of_the_gap_when_it_is_the_last(open_store: OpenLogs) -> None:
    logs = open_store()
    await logs.mark_gap(STREAM, since=START, until=after(1), cause="rotated", position="g0")
    assert await find_position(open_store()) == ("g0", 0)
    await logs.append(STREAM, b"one\n", offset=0, at=after(2), position="p1")
    assert await find_position(open_store()) == ("p1", 4)
    # The newest is the one that was recorded last, whatever its times are.
    await logs.mark_gap(STREAM, since=after(9), until=after(9), cause="node lost", after="p1", position="g1")
    await logs.mark_gap(STREAM, since=after(3), until=after(4), cause="rotated", after="g1", position="g2")
    assert await find_position(open_store()) == ("g2", 4)
    assert [piece.gap for piece in await logs.read(STREAM, offset=4)] == ["node lost", "rotated"]


async def test_gap_is_stored_once_when_a_writer_repeats_itself(open_store: OpenLogs) -> None:
    one, other = open_store(), open_store()
    await one.append(STREAM, b"one\n", offset=0, at=START, position="p1")
    for logs, until in ((one, 2), (other, 5)):
        # Found again by its position.
        since, end = after(until - 1), after(until)
        assert await logs.mark_gap(STREAM, since=since, until=end, cause="lost", after="p1", position="g1") == 4
    for logs in (one, other):
        # Found again by its beginning and cause.
        assert await logs.mark_gap(STREAM, since=after(7), until=after(8), cause="limit", after="g1") == 4
    gaps = [piece.gap for piece in await one.read(STREAM) if piece.gap is not None]
    assert gaps == ["lost", "limit"]
    assert await find_position(other) == ("g1", 4)


async def test_gap_is_stored_when_it_does_not_move_the_position(logs: LogStore) -> None:
    await logs.append(STREAM, b"one\n", offset=0, at=START, after=None, position="p1")
    for _ in range(2):
        await logs.mark_gap(STREAM, since=START, until=after(1), cause="gone", after="p1", position="p1")
    assert [piece.gap for piece in await logs.read(STREAM) if piece.gap is not None] == ["gone"]
    assert await find_position(logs) == ("p1", 4)


async def test_nothing_is_written_when_another_writer_was_faster(open_store: OpenLogs) -> None:
    one, other = open_store(), open_store()
    await one.append(STREAM, b"0123", offset=0, at=START, after=None, position="four")
    # The same bytes are known; more, read from the same position, would not be in their place after a gap.
    assert await other.append(STREAM, b"0123", offset=0, at=START, after=None, position="four") == 4
    for store in (one, other):
        with pytest.raises(Stale):
            await store.append(STREAM, b"012345", offset=0, at=START, after=None, position="six")
        with pytest.raises(Stale):
            await store.mark_gap(STREAM, since=START, until=START, cause="lost", after="three", position="six")
    assert await read_all(one) == b"0123"
    assert await one.append(STREAM, b"45", offset=4, at=START, after="four", position="six") == 6
    # Parts without a position stand between two.
    assert await one.append(STREAM, b"67", offset=6, at=START, after="six") == 8
    assert await other.mark_gap(STREAM, since=START, until=START, cause="lost", after="six", position="ten") == 8
    assert await find_position(one) == ("ten", 8)
    assert await read_all(other) == b"01234567"


async def test_nothing_is_made_when_a_position_was_expected(logs: LogStore) -> None:
    with pytest.raises(Stale):
        await logs.append(STREAM, b"x", offset=0, at=START, after="four", position="five")
    with pytest.raises(Stale):
        await logs.mark_gap(STREAM, since=START, until=START, cause="lost", after="four")
    with pytest.raises(ValueError, match="needs its cause"):
        await logs.mark_gap(STREAM, since=START, until=START, cause="")
    assert await logs.list_streams("run-1") == []


async def test_position_is_refused_when_it_is_too_long(logs: LogStore) -> None:
    longest = "\u20ac" * (LARGEST_POSITION_BYTES // 3) + "x"
    assert len(longest.encode()) == LARGEST_POSITION_BYTES
    await logs.append(STREAM, b"x", offset=0, at=START, position=longest)
    assert await find_position(logs) == (longest, 1)
    with pytest.raises(ValueError, match="at most 1024 bytes"):
        await logs.append(STREAM, b"y", offset=1, at=START, position=longest + "x")
    with pytest.raises(ValueError, match="at most 1024 bytes"):
        await logs.mark_gap(STREAM, since=START, until=START, cause="lost", position=longest + "x")
    assert await read_all(logs) == b"x"


async def test_instances_are_streams_of_their_own_when_a_container_is_restarted(open_store: OpenLogs) -> None:
    logs = open_store()
    streams = [Stream("run-1", "pod", "main", instance) for instance in (0, 1, 12)]
    look_alike = Stream("run-1", "pod", "main-1")
    for number, stream in enumerate([*streams, look_alike]):
        await logs.append(stream, b"%d\n" % number, offset=0, at=after(number), position=str(number))
    found = await open_store().list_streams("run-1")
    assert [info.stream for info in found] == [*streams, look_alike]
    assert [info.position for info in found] == ["0", "1", "2", "3"]
    assert await read_all(logs, stream=streams[2]) == b"2\n"
    assert [stream.name for stream in streams] == ["pod/main", "pod/main/1", "pod/main/12"]
    for instance in (-1, 2**31):
        with pytest.raises(ValueError, match="instance"):
            await logs.append(Stream("run-1", "pod", "main", instance), b"x", offset=0, at=START)
