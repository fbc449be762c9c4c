"""Rows of stored files: totals, reservations, and blobs that nothing uses anymore."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runyard.app.model import FileUsage, ResumableUpload, StoredFile, Upload
from runyard.app.ports import Stale, Store
from tests.contract.store.builders import NOON, make_entity

HOUR = timedelta(hours=1)


def make_upload(blob: str, size: int = 5, **fields: Any) -> Upload:
    """For artifact a1 of project p."""
    chosen: dict[str, Any] = {"type": "artifact", "project": "p", "id": "a1", **fields}
    return Upload(blob=blob, size=size, **chosen)


def make_file(blob: str, path: str = "f", size: int = 5, **fields: Any) -> StoredFile:
    """Of artifact a1 of project p."""
    chosen: dict[str, Any] = {"type": "artifact", "project": "p", "id": "a1", "sha256": "0" * 64, **fields}
    return StoredFile(blob=blob, path=path, size=size, content_type="text/plain", at=NOON, user="ada", **chosen)


async def put(store: Store, blob: str, path: str = "f", size: int = 5, **fields: Any) -> StoredFile:
    """An upload from beginning to end."""
    file = make_file(blob, path, size, **fields)
    async with store.begin() as work:
        await work.files.reserve(make_upload(blob, size, **fields), lasting=HOUR)
        await work.commit()
    async with store.begin() as work:
        await work.files.put(file)
        await work.commit()
    return file


async def list_unused(store: Store) -> list[str]:
    async with store.begin(is_read_only=True) as work:
        return list(await work.files.list_unused(limit=100))


async def measure(store: Store, *, entity: tuple[str, str] | None = None) -> FileUsage:
    async with store.begin(is_read_only=True) as work:
        return await work.files.measure("p", entity=entity)


async def test_file_is_found_as_it_was_stored(store: Store) -> None:
    file = await put(store, "blob1", "a/b c/é")
    await put(store, "blob2", "a", id="a2")
    async with store.begin(is_read_only=True) as work:
        assert await work.files.find("artifact", "a1", "a/b c/é", project="p") == file
        assert await work.files.list_files("artifact", "a1", project="p") == [file]
        assert await work.files.find("artifact", "a1", "a", project="p") is None
        assert await work.files.find("model", "a1", "a/b c/é", project="p") is None
        assert await work.files.find("artifact", "a1", "a/b c/é", project="q") is None


async def test_usage_counts_files_and_reservations_when_they_come_and_go(store: Store) -> None:
    await put(store, "blob1", "f", 5)
    await put(store, "blob2", "g", 7, id="a2")
    async with store.begin() as work:
        await work.files.reserve(make_upload("blob3", 100), lasting=HOUR)
        await work.commit()
    assert await measure(store) == FileUsage(number=3, bytes=112)
    assert await measure(store, entity=("artifact", "a1")) == FileUsage(number=2, bytes=105)
    assert await measure(store, entity=("artifact", "a2")) == FileUsage(number=1, bytes=7)
    async with store.begin() as work:
        assert await work.files.release("blob3")
        assert await work.files.delete("artifact", "a1", "f", project="p")
        assert not await work.files.delete("artifact", "a1", "f", project="p")
        await work.commit()
    assert await measure(store) == FileUsage(number=1, bytes=7)
    assert await measure(store, entity=("artifact", "a1")) == FileUsage(number=0, bytes=0)


async def test_replaced_blob_is_unused_when_a_file_is_put_again(store: Store) -> None:
    await put(store, "blob1", size=5)
    assert await list_unused(store) == []
    replaced = await put(store, "blob2", size=3)
    assert await list_unused(store) == ["blob1"]
    assert await measure(store) == FileUsage(number=1, bytes=3)
    async with store.begin(is_read_only=True) as work:
        assert await work.files.list_files("artifact", "a1", project="p") == [replaced]


async def test_put_is_stale_when_its_room_is_not_reserved_anymore(store: Store) -> None:
    async with store.begin() as work:
        with pytest.raises(Stale):
            await work.files.put(make_file("never"))
    async with store.begin() as work:
        await work.files.reserve(make_upload("released"), lasting=HOUR)
        await work.files.reserve(make_upload("expired"), lasting=timedelta(seconds=-1))
        await work.files.release("released")
        await work.commit()
    for blob in ("released", "expired"):
        async with store.begin() as work:
            with pytest.raises(Stale):
                await work.files.put(make_file(blob))
    # The expired one is deleted a day later only: whoever was about to put it has given up by then.
    assert await list_unused(store) == ["released"]


async def test_reservation_is_unused_by_itself_when_its_time_is_over(store: Store) -> None:
    async with store.begin() as work:
        await work.files.reserve(make_upload("new"), lasting=HOUR)
        await work.files.reserve(make_upload("old"), lasting=timedelta(days=-1, seconds=-1))
        await work.commit()
    assert await list_unused(store) == ["old"]
    async with store.begin() as work:
        await work.files.forget_unused(["old"])
        await work.files.forget_unused(["old"])
        await work.commit()
    assert await list_unused(store) == []
    async with store.begin() as work:
        assert not await work.files.release("old")


async def test_unused_blobs_are_listed_in_pages(store: Store) -> None:
    for number in range(5):
        await put(store, f"blob{number}", f"f{number}")
    async with store.begin() as work:
        for number in range(5):
            await work.files.delete("artifact", "a1", f"f{number}", project="p")
        await work.commit()
    async with store.begin(is_read_only=True) as work:
        first = await work.files.list_unused(limit=3)
        rest = await work.files.list_unused(after=first[-1], limit=3)
    assert [*first, *rest] == [f"blob{number}" for number in range(5)]


async def test_blobs_are_unused_when_their_entity_is_deleted(store: Store) -> None:
    async with store.begin() as work:
        for entity_id in ("a1", "a2"):
            await work.entities.add(make_entity(entity_id, type="artifact", kind="artifact"))
        await work.commit()
    await put(store, "blob1", "f")
    await put(store, "blob2", "g")
    kept = await put(store, "blob3", "f", 9, id="a2")
    async with store.begin() as work:
        assert await work.entities.delete("artifact", "a1", project="p")
        await work.commit()
    assert await list_unused(store) == ["blob1", "blob2"]
    assert await measure(store) == FileUsage(number=1, bytes=9)
    async with store.begin(is_read_only=True) as work:
        assert await work.files.list_files("artifact", "a1", project="p") == []
        assert await work.files.list_files("artifact", "a2", project="p") == [kept]


async def test_nothing_is_unused_when_a_deletion_is_rolled_back(store: Store) -> None:
    async with store.begin() as work:
        await work.entities.add(make_entity("a1", type="artifact", kind="artifact"))
        await work.commit()
    file = await put(store, "blob1")
    async with store.begin() as work:
        await work.entities.delete("artifact", "a1", project="p")
    assert await list_unused(store) == []
    async with store.begin(is_read_only=True) as work:
        assert await work.files.list_files("artifact", "a1", project="p") == [file]


async def test_blobs_are_unused_when_their_project_is_deleted(store: Store) -> None:
    async with store.begin() as work:
        await work.entities.add(make_entity("p", type="project", kind="project", name="p"))
        for entity_id in ("a1", "a2", "a3"):
            await work.entities.add(make_entity(entity_id, type="artifact", kind="artifact"))
        await work.commit()
    for number, entity_id in enumerate(("a1", "a1", "a2", "a3")):
        await put(store, f"blob{number}", f"f{number}", id=entity_id)
    other = await put(store, "other", "f", project="q")
    async with store.begin() as work:
        assert await work.entities.delete_content("p", limit=200) in (1, 2)
        assert await work.entities.delete_content("p", limit=200) in (1, 2)
        # What is left goes with the project itself.
        await work.entities.delete_project("p")
        await work.commit()
    assert await list_unused(store) == [f"blob{number}" for number in range(4)]
    assert await measure(store) == FileUsage(number=0, bytes=0)
    async with store.begin(is_read_only=True) as work:
        assert await work.files.list_files("artifact", "a1", project="q") == [other]
        assert await work.files.measure("q") == FileUsage(number=1, bytes=5)


def make_resumable(blob: str, path: str = "f", **fields: Any) -> ResumableUpload:
    """For artifact a1 of project p."""
    chosen: dict[str, Any] = {"type": "artifact", "project": "p", "id": "a1", "size": 5, **fields}
    return ResumableUpload(
        blob=blob, path=path, entity_created_at=NOON, content_type="text/plain", user="ada", expires_at=NOON, **chosen
    )


async def add_uploads(store: Store, *uploads: ResumableUpload, lasting: timedelta = HOUR) -> None:
    async with store.begin() as work:
        for upload in uploads:
            await work.files.add_upload(upload, lasting=lasting)
        await work.commit()


async def test_resumable_upload_is_found_as_it_was_begun_until_it_is_a_file(store: Store) -> None:
    given = make_resumable("blob1", "a/é", sha256="0" * 64, is_new=True, replaces="1" * 64)
    await add_uploads(store, given, make_resumable("blob2", "a", id="a2"))
    async with store.begin(is_read_only=True) as work:
        found = await work.files.find_upload("blob1", project="p")
        assert found is not None
        assert replace(found, expires_at=NOON) == given
        assert timedelta(minutes=59) < found.expires_at - datetime.now(UTC) <= HOUR
        assert await work.files.list_uploads("artifact", "a1", project="p") == [found]
        assert await work.files.find_upload("blob1", project="q") is None
        assert await work.files.count_uploads("p") == 2
    assert await measure(store, entity=("artifact", "a1")) == FileUsage(number=1, bytes=5)
    async with store.begin() as work:
        await work.files.put(make_file("blob1"))
        await work.files.release("blob2")
        await work.commit()
    async with store.begin(is_read_only=True) as work:
        assert await work.files.count_uploads("p") == 0
    assert (await measure(store), await list_unused(store)) == (FileUsage(number=1, bytes=5), ["blob2"])


async def test_resumable_upload_is_not_found_when_it_has_expired(store: Store) -> None:
    with pytest.raises(Stale):
        await add_uploads(store, make_resumable("blob1"), lasting=timedelta(seconds=-1))


async def test_lease_of_an_upload_has_one_holder_until_it_ends(store: Store) -> None:
    await add_uploads(store, make_resumable("blob1"))

    async def hold(holder: str, *, lasting: timedelta = HOUR, blob: str = "blob1") -> bool:
        async with store.begin() as work:
            is_held = await work.files.hold_upload(blob, holder=holder, lasting=lasting)
            await work.commit()
            return is_held

    assert [await hold("one"), await hold("two"), await hold("one"), await hold("one", blob="none")] == [
        *(True, False, True, False)
    ]
    async with store.begin() as work:
        await work.files.free_upload("blob1", holder="two")
        await work.commit()
    assert not await hold("two")
    async with store.begin() as work:
        await work.files.free_upload("blob1", holder="one")
        await work.commit()
    assert await hold("two", lasting=timedelta(seconds=-1))
    assert await hold("three")


async def test_uploads_end_when_their_entity_or_project_is_deleted(store: Store) -> None:
    async with store.begin() as work:
        await work.entities.add(make_entity("p", type="project", kind="project", name="p"))
        for entity_id in ("a1", "a2"):
            await work.entities.add(make_entity(entity_id, type="artifact", kind="artifact"))
        await work.commit()
    await add_uploads(store, make_resumable("blob1"), make_resumable("blob2", id="a2"))
    async with store.begin() as work:
        assert await work.entities.delete("artifact", "a1", project="p")
        await work.commit()
    assert await measure(store) == FileUsage(number=1, bytes=5)
    async with store.begin() as work:
        assert await work.files.find_upload("blob1", project="p") is None
        await work.entities.delete_project("p")
        await work.commit()
    assert await measure(store) == FileUsage(number=0, bytes=0)
    # A request may still write to them.
    assert await list_unused(store) == []
