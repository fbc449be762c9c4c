"""What a crash leaves in the files of a stream: cut at every byte, nothing acknowledged before is lost."""

import shutil
from pathlib import Path

import pytest

from runyard.logs import LogsUnavailable, open_logs
from runyard.logs.folder_stream import FolderStream
from tests.contract.logs.builders import STREAM, after, read_all, write


async def make_folder(root: Path, *contents: bytes) -> Path:
    """A store with one stream; where its files are."""
    logs = open_logs(f"folder:{root}")
    await write(logs, *contents)
    await logs.close()
    return find_files(root)


def find_files(root: Path) -> Path:
    (names,) = root.rglob("stream.json")
    return names.parent


async def test_whole_pieces_stay_when_the_tail_was_cut_at_any_byte(tmp_path: Path) -> None:
    files = await make_folder(tmp_path / "logs", b"one\n", b"two\n", b"three\n")
    tail = (files / "tail").read_bytes()
    ends = {b"", b"one\n", b"one\ntwo\n", b"one\ntwo\nthree\n"}
    seen = set()
    for size in range(len(tail) + 1):
        (files / "tail").write_bytes(tail[:size])
        logs = open_logs(f"folder:{tmp_path / 'logs'}")
        content = await read_all(logs)
        seen.add(content)
        rest = b"one\ntwo\nthree\n"[len(content) :] + b"four\n"
        assert await logs.append(STREAM, rest, offset=len(content), at=after(9)) == 19
        assert await read_all(logs) == b"one\ntwo\nthree\nfour\n"
        await logs.close()
    assert seen == ends


async def test_pieces_count_once_when_a_chunk_was_written_and_the_tail_not_emptied(tmp_path: Path) -> None:
    contents = [bytes([65 + number]) * 20_000 for number in range(4)]
    files = await make_folder(tmp_path / "before", *contents[:3])
    tail = (files / "tail").read_bytes()
    whole = await make_folder(tmp_path / "after", *contents)
    (whole / "tail").write_bytes(tail)
    logs = open_logs(f"folder:{tmp_path / 'after'}")
    assert await read_all(logs) == b"".join(contents)
    assert await logs.append(STREAM, b"end", offset=80_000, at=after(9)) == 80_003
    assert await read_all(logs) == b"".join(contents) + b"end"
    await logs.close()


async def test_chunks_that_are_whole_stay_when_the_last_was_cut(tmp_path: Path) -> None:
    contents = [bytes([65 + number]) * 70_000 for number in range(3)]
    files = await make_folder(tmp_path / "logs", *contents)
    chunks = (files / "chunks").read_bytes()
    (files / "chunks").write_bytes(chunks[:-5])
    logs = open_logs(f"folder:{tmp_path / 'logs'}")
    assert await read_all(logs) == b"".join(contents[:2])
    assert await logs.append(STREAM, contents[2], offset=140_000, at=after(9)) == 210_000
    assert await read_all(logs) == b"".join(contents)
    await logs.close()


async def test_damage_is_told_when_a_chunk_is_not_what_was_written(tmp_path: Path) -> None:
    files = await make_folder(tmp_path / "logs", b"x" * 70_000)
    chunks = bytearray((files / "chunks").read_bytes())
    chunks[-10] ^= 1
    (files / "chunks").write_bytes(chunks)
    logs = open_logs(f"folder:{tmp_path / 'logs'}")
    with pytest.raises(LogsUnavailable, match="damaged"):
        await logs.read(STREAM)
    await logs.close()


async def test_chunks_are_read_anew_when_another_file_has_taken_their_place(tmp_path: Path) -> None:
    files = await make_folder(tmp_path / "logs", *[b"a" * 70_000] * 3)
    other = await make_folder(tmp_path / "other", *[b"bc" * 50_000] * 2)
    known = FolderStream(files)
    assert [extent.length for extent in known.list_extents()] == [70_000] * 3
    shutil.copy(other / "chunks", files / "chunks")
    assert [extent.length for extent in known.list_extents()] == [100_000] * 2


async def test_failure_is_told_when_the_folder_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file")
    logs = open_logs(f"folder:{tmp_path / 'logs'}")
    with pytest.raises(LogsUnavailable, match="cannot be used"):
        await write(logs, b"x")
    await logs.close()
