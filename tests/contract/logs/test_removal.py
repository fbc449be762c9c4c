from pathlib import Path

import pytest

from runyard.app.log_store import LogStore, Stream
from tests.contract.logs.builders import START, STREAM, after, read_all, write
from tests.contract.logs.conftest import OpenLogs

HOSTILE = (
    "../../etc/passwd",
    "..",
    ".",
    "/",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "C:\\x",
    "pod\nname",
    "pod\0name",
    "\u2620 \u202e\u00e9",
    "e\u0301",
    "x" * 1000,
    "\U0001f680" * 250,
    "%2e%2e%2f",
    "~",
    "-rf",
    "A",
    "a",
    "'; DROP TABLE streams; --",
    "<Key>&amp;",
)


async def test_nothing_of_a_run_is_left_when_it_is_deleted(logs: LogStore) -> None:
    other = Stream("run-2", "pod", "main")
    await write(logs, *[b"x" * 10_000] * 7)
    await write(logs, b"side", stream=Stream("run-1", "pod", "sidecar"))
    await logs.mark_gap(STREAM, since=START, until=START, cause="lost")
    await write(logs, b"kept", stream=other)
    await logs.delete("run-1")
    await logs.delete("run-1")
    await logs.delete("never-was")
    assert await logs.list_streams("run-1") == []
    assert await logs.read(STREAM) == []
    assert await read_all(logs, stream=other) == b"kept"
    assert await write(logs, b"anew") == 4
    assert await read_all(logs) == b"anew"


async def test_others_see_it_when_a_run_is_deleted_and_written_anew(open_store: OpenLogs) -> None:
    one, other = open_store(), open_store()
    await write(one, *[b"x" * 10_000] * 7)
    assert len(await read_all(other)) == 70_000
    await one.delete("run-1")
    assert await read_all(other) == b""
    assert await other.list_streams("run-1") == []


async def test_old_streams_go_when_pruned(logs: LogStore) -> None:
    old, new, gap = (Stream("run-1", name, "main") for name in ("old", "new", "gap"))
    await logs.append(old, b"a", offset=0, at=after(1))
    await logs.append(old, b"b", offset=1, at=after(9))
    await logs.append(new, b"a", offset=0, at=after(1))
    await logs.append(new, b"b", offset=1, at=after(10))
    await logs.mark_gap(gap, since=after(1), until=after(5), cause="lost")
    await write(logs, b"x", stream=Stream("run-2", "old", "main"))
    assert await logs.prune(before=after(10)) == 3
    assert [info.stream for info in await logs.list_streams("run-1")] == [new]
    assert await logs.list_streams("run-2") == []
    assert await logs.prune(before=after(10)) == 0


async def test_streams_stay_apart_when_their_names_are_hostile(open_store: OpenLogs, tmp_path: Path) -> None:
    logs = open_store()
    streams = [Stream(name, name, name) for name in HOSTILE] + [Stream("run", name, "main") for name in HOSTILE]
    before = {path for path in tmp_path.parent.rglob("*") if tmp_path not in path.parents}
    for number, stream in enumerate(streams):
        await logs.append(stream, b"%d" % number, offset=0, at=after(number))
    for number, stream in enumerate(streams):
        assert await read_all(logs, stream=stream) == b"%d" % number
    assert {info.stream.pod for info in await logs.list_streams("run")} == set(HOSTILE)
    for name in HOSTILE:
        assert [info.stream for info in await logs.list_streams(name)] == [Stream(name, name, name)]
        await logs.delete(name)
    assert {info.stream.pod for info in await logs.list_streams("run")} == set(HOSTILE)
    assert {path for path in tmp_path.parent.rglob("*") if tmp_path not in path.parents} == before


@pytest.mark.parametrize("kind", ["database", "folder"])
async def test_files_are_their_owners_alone_when_made(logs: LogStore, tmp_path: Path) -> None:
    await write(logs, *[b"x" * 10_000] * 7)
    await logs.mark_gap(STREAM, since=START, until=START, cause="lost")
    assert find_modes(tmp_path) == {0o600}


def find_modes(folder: Path) -> set[int]:
    return {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()}
