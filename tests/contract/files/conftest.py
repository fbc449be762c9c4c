"""The same tests on each file storage: `open_store()` opens it, again and again the same one; `blobs` is one, empty."""

import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from runyard.app.blob_store import BlobStore
from runyard.files import open_blobs

OpenBlobs = Callable[[], BlobStore]
KINDS = ("folder", "s3")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
async def open_store(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[OpenBlobs]:
    """Opens the storage of this test; what was opened is closed after it."""
    # The least that S3 takes.
    monkeypatch.setattr("runyard.s3.multipart.LEAST_PART_BYTES", 5 << 20)
    opened: list[BlobStore] = []
    prefix = f"tests/{uuid.uuid4().hex}"

    def open_again() -> BlobStore:
        if kind == "s3":
            store: BlobStore = request.getfixturevalue("s3_server").open_blobs(prefix)
        else:
            store = open_blobs(str(tmp_path / "files"))
        opened.append(store)
        return store

    yield open_again
    for store in opened:
        await store.close()


@pytest.fixture
def blobs(open_store: OpenBlobs) -> BlobStore:
    """An empty one."""
    return open_store()
