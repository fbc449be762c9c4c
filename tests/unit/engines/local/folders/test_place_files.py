"""Files of the place: bounded, atomic, and never through a link."""

import asyncio
import json
import os
import tracemalloc
from pathlib import Path

import pytest

from runyard.engines.local.folders import place_files
from runyard.engines.local.folders.place import open_place
from runyard.engines.local.folders.place_files import (
    LARGEST_RECORD_BYTES,
    Unreadable,
    lock_file,
    read_bytes,
    read_record,
    remove_tree,
    rename_new,
    write_record,
)


def test_record_comes_back_when_it_was_written(tmp_path: Path) -> None:
    write_record(tmp_path / "a.json", {"n": 1})
    assert read_record(tmp_path / "a.json") == {"n": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_record_is_none_when_there_is_no_file(tmp_path: Path) -> None:
    assert read_record(tmp_path / "a.json") is None
    assert read_record(tmp_path / "folder" / "a.json") is None


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_record_is_unreadable_when_the_file_holds_something_else(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(Unreadable):
        read_record(tmp_path / "a.json")


def test_record_is_unreadable_when_it_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"x": "y" * LARGEST_RECORD_BYTES}))
    with pytest.raises(Unreadable):
        read_record(tmp_path / "a.json")


def test_nothing_is_read_when_the_name_is_a_link_a_folder_or_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "folder", "pipe"):
        assert read_bytes(tmp_path / name, most=10) is None


def test_target_stays_when_something_has_its_name(tmp_path: Path) -> None:
    for name in ("new", "taken"):
        (tmp_path / name).mkdir()
    assert not rename_new(tmp_path / "new", tmp_path / "taken")
    assert (tmp_path / "new").is_dir()
    assert rename_new(tmp_path / "new", tmp_path / "free")
    assert not (tmp_path / "new").exists()


def test_tree_goes_and_what_its_links_name_stays_when_it_is_removed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    tree = tmp_path / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "b" / "file").touch()
    (tree / "a" / "link").symlink_to(outside)
    (tree / "a" / "b" / "loop").symlink_to(tree)
    os.mkfifo(tree / "pipe")
    remove_tree(tree)
    remove_tree(tree)
    assert not tree.exists()
    assert (outside / "kept").exists()


def test_link_goes_alone_when_it_has_the_name_of_the_tree(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "tree").symlink_to(tmp_path / "kept")
    remove_tree(tmp_path / "tree")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_tree_goes_when_it_is_deeper_than_any_path_and_recursion(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    descriptor = os.open(tmp_path / "tree", os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d" * 10, dir_fd=descriptor)
        inner = os.open("d" * 10, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    remove_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()


def test_tree_goes_when_its_owner_made_folders_unreadable(tmp_path: Path) -> None:
    locked = tmp_path / "tree" / "a"
    (locked / "b").mkdir(parents=True)
    locked.chmod(0)
    (tmp_path / "tree").chmod(0)
    remove_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()


def test_tree_goes_with_little_memory_when_it_is_deep_and_wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place_files, "MOST_REMOVED_AT_ONCE", 100)
    monkeypatch.setattr(place_files, "MOST_REMOVED_LEVELS", 20)
    tree = tmp_path / "tree"
    tree.mkdir()
    descriptor = os.open(tree, os.O_RDONLY)
    for _ in range(500):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    for number in range(800):
        os.mkdir(f"{number}" + "x" * 100, dir_fd=descriptor)
    os.close(descriptor)
    tracemalloc.start()
    try:
        remove_tree(tree)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert not tree.exists()
    assert peak < 60_000


def test_removal_gives_up_when_it_is_over(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / "tree" / f"{number}").mkdir(parents=True)
    answers = iter([False] * 5)
    remove_tree(tmp_path / "tree", is_over=lambda: next(answers, True))
    assert 0 < len(list((tmp_path / "tree").iterdir())) <= 10


def test_no_descriptor_of_others_is_closed_when_a_removal_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tree" / "a").mkdir(parents=True)

    def refuse(*_args: object) -> None:
        raise PermissionError("immutable")

    monkeypatch.setattr(os, "fchmod", refuse)
    before = sorted(Path("/proc/self/fd").iterdir())
    with pytest.raises(PermissionError, match="immutable"):
        remove_tree(tmp_path / "tree")
    assert sorted(Path("/proc/self/fd").iterdir()) == before


async def test_others_wait_without_blocking_when_a_file_is_locked(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    order: list[str] = []

    async def take(name: str) -> None:
        async with lock_file(path) as is_there:
            assert is_there
            order.append(f"{name} begins")
            await asyncio.sleep(0.02)
            order.append(f"{name} ends")

    await asyncio.gather(*(take(name) for name in "abc"))
    assert [order[index].partition(" ")[0] for index in (0, 2, 4)] == [
        order[index].partition(" ")[0] for index in (1, 3, 5)
    ]


async def test_lock_is_not_held_when_the_file_is_gone(tmp_path: Path) -> None:
    async with lock_file(tmp_path / "folder" / "lock") as is_there:
        assert not is_there


def test_place_has_one_uid_when_it_is_opened_again(tmp_path: Path) -> None:
    first = open_place(tmp_path / "data" / "local")
    assert open_place(tmp_path / "data" / "local").uid == first.uid
    assert open_place(tmp_path / "other").uid != first.uid


def test_place_is_refused_when_its_file_is_damaged(tmp_path: Path) -> None:
    open_place(tmp_path)
    (tmp_path / "place.json").write_text('{"uid": "../x"}')
    with pytest.raises(Unreadable):
        open_place(tmp_path)


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", ".hidden", "a\n", "x" * 254])
def test_no_folder_is_named_when_the_name_is_a_path(tmp_path: Path, name: str) -> None:
    place = open_place(tmp_path)
    assert place.find_run_folder(name) is None
    assert place.find_project_folder(name) is None
