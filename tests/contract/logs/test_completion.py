"""A complete stream: nothing follows, and readers know it."""

import pytest

from runyard.app.log_store import LARGEST_CAUSE_BYTES, LogStore, Stream, StreamComplete
from tests.contract.logs.builders import START, STREAM, after, read_all, write
from tests.contract.logs.conftest import OpenLogs


async def list_ends(logs: LogStore) -> list[tuple[str, int, bool, str | None]]:
    infos = await logs.list_streams("run-1")
    return [(info.stream.pod, info.size, info.is_complete, info.cause) for info in infos]


async def test_stream_is_complete_when_it_was_finished(open_store: OpenLogs) -> None:
    logs = open_store()
    await write(logs, *[b"x" * 9000] * 9)
    assert await list_ends(logs) == [("run-1-abc", 81_000, False, None)]
    await logs.finish(STREAM, cause=None, at=after(10))
    for store in (logs, open_store()):
        assert await list_ends(store) == [("run-1-abc", 81_000, True, None)]
        assert len(await read_all(store)) == 81_000


async def test_nothing_is_appended_when_a_stream_is_complete(open_store: OpenLogs) -> None:
    logs, other = open_store(), open_store()
    await logs.append(STREAM, b"0123", offset=0, at=START, position="four")
    await logs.mark_gap(STREAM, since=after(1), until=after(2), cause="lost", position="gap")
    assert await read_all(other) == b"0123"
    await logs.finish(STREAM, cause=None, at=after(3))
    for store in (logs, other):
        with pytest.raises(StreamComplete, match="run-1-abc/main is complete"):
            await store.append(STREAM, b"4", offset=4, at=after(4), position="five")
        with pytest.raises(StreamComplete):
            await store.mark_gap(STREAM, since=after(5), until=after(6), cause="again", position="more")
        # What is stored may be repeated, by a writer that does not know yet.
        assert await store.append(STREAM, b"0123", offset=0, at=after(4), position="four") == 4
        await store.mark_gap(STREAM, since=after(1), until=after(2), cause="lost", position="gap")
    assert await read_all(logs) == b"0123"
    (info,) = await logs.list_streams("run-1")
    assert (info.position, info.position_offset) == ("gap", 4)


async def test_first_cause_stays_when_a_stream_is_finished_again(open_store: OpenLogs) -> None:
    logs = open_store()
    await write(logs, b"x")
    await logs.finish(STREAM, cause="limit \u2620", at=after(1))
    await open_store().finish(STREAM, cause=None, at=after(2))
    await logs.finish(STREAM, cause="other", at=after(3))
    assert await list_ends(open_store()) == [("run-1-abc", 1, True, "limit \u2620")]


async def test_stream_is_listed_when_it_was_finished_without_bytes(open_store: OpenLogs) -> None:
    logs = open_store()
    await write(logs, b"x", stream=Stream("run-1", "first", "main"))
    await logs.finish(STREAM, cause=None, at=after(-5))
    await logs.finish(Stream("run-1", "late", "main"), cause="limit", at=after(5))
    assert await list_ends(open_store()) == [
        ("run-1-abc", 0, True, None),
        ("first", 1, False, None),
        ("late", 0, True, "limit"),
    ]
    with pytest.raises(StreamComplete):
        await logs.append(STREAM, b"x", offset=0, at=START)
    assert await logs.read(STREAM) == []


async def test_complete_streams_go_when_pruned_or_deleted(logs: LogStore) -> None:
    await logs.finish(STREAM, cause=None, at=after(5))
    old, new = (Stream("run-1", name, "main") for name in ("old", "new"))
    await logs.append(old, b"x", offset=0, at=after(1))
    await logs.finish(old, cause=None, at=after(99))
    await logs.append(new, b"x", offset=0, at=after(8))
    await logs.finish(new, cause=None, at=after(9))
    assert await logs.prune(before=after(5)) == 1
    assert [pod for pod, *_ in await list_ends(logs)] == ["run-1-abc", "new"]
    assert await logs.prune(before=after(6)) == 1
    await logs.delete("run-1")
    assert await list_ends(logs) == []
    assert await write(logs, b"anew") == 4


async def test_cause_is_cut_when_it_is_too_long(logs: LogStore) -> None:
    await logs.mark_gap(STREAM, since=START, until=START, cause="\u20ac" * LARGEST_CAUSE_BYTES)
    await logs.finish(STREAM, cause="x" * 2 * LARGEST_CAUSE_BYTES, at=after(1))
    (gap,) = await logs.read(STREAM)
    assert gap.gap == "\u20ac" * (LARGEST_CAUSE_BYTES // 3)
    (info,) = await logs.list_streams("run-1")
    assert info.cause == "x" * LARGEST_CAUSE_BYTES
