"""What only files in S3 can do wrong: credentials, buckets, lost connections, full storage."""

import uuid
from collections.abc import AsyncIterator

import httpx2
import pytest

from runyard.app.blob_store import BlobsUnavailable, StorageFull
from runyard.files.s3 import S3Blobs
from runyard.s3.bucket import Bucket
from runyard.s3.multipart import Part, choose_part_bytes, complete_upload, list_uploads
from tests.contract.files.builders import BLOB, LARGE, PART, iterate, iterate_in, read
from tests.s3.server import S3Server


@pytest.fixture
async def blobs(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[S3Blobs]:
    monkeypatch.setattr("runyard.s3.multipart.LEAST_PART_BYTES", PART)
    opened = s3_server.open_blobs(f"tests/{uuid.uuid4().hex}")
    assert isinstance(opened, S3Blobs)
    yield opened
    await opened.close()


async def do_not_sleep(_seconds: float) -> None:
    return


async def test_storage_is_unavailable_when_the_secret_or_the_bucket_is_wrong(s3_server: S3Server) -> None:
    for opened, code in (
        (s3_server.open_blobs("x", secret_key="not-the-secret"), "SignatureDoesNotMatch"),
        (s3_server.open_blobs("x", bucket="no-such-bucket"), "NoSuchBucket"),
    ):
        with pytest.raises(BlobsUnavailable, match=code) as failure:
            await opened.check()
        assert "not-the-secret" not in repr(failure.value)
        with pytest.raises(BlobsUnavailable, match=code):
            await opened.write(BLOB, iterate(b"x"), size=1)
        await opened.close()


async def test_download_goes_on_when_the_connection_is_lost(blobs: S3Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runyard.s3.bucket.asyncio.sleep", do_not_sleep)
    content = LARGE[:1_000_000]
    await blobs.write(BLOB, iterate(content), size=len(content))
    read_on, losses = httpx2.Response.aiter_bytes, [3]

    async def lose(self: httpx2.Response, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        async for chunk in read_on(self, chunk_size):
            yield chunk
            if losses[0]:
                losses[0] -= 1
                raise httpx2.ReadError("connection lost")

    monkeypatch.setattr(httpx2.Response, "aiter_bytes", lose)
    assert await read(blobs, start=10, size=len(content) - 10) == content[10:]
    assert losses == [0]


async def test_storage_is_full_when_s3_says_so(blobs: S3Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(self: httpx2.AsyncClient, request: httpx2.Request, **_options: object) -> httpx2.Response:
        text = b"<Error><Code>XMinioStorageFull</Code></Error>"
        return httpx2.Response(507, content=text, request=request)

    with monkeypatch.context() as full:
        full.setattr(httpx2.AsyncClient, "send", refuse)
        with pytest.raises(StorageFull):
            await blobs.write(BLOB, iterate(b"x"), size=1)
    assert await blobs.measure_unfinished(BLOB) == 0


async def test_completion_succeeds_when_its_response_was_lost(blobs: S3Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    async def complete_twice(bucket: Bucket, key: str, upload: str, parts: list[Part]) -> None:
        for _ in range(2):
            await complete_upload(bucket, key, upload, parts)
            calls.append(upload)

    monkeypatch.setattr("runyard.files.s3.complete_upload", complete_twice)
    await blobs.write(BLOB, iterate_in(LARGE), size=len(LARGE))
    assert len(calls) == 2
    assert await read(blobs, size=len(LARGE)) == LARGE
    assert await list_uploads(blobs._bucket, blobs._locate(BLOB)) == []


async def test_completion_fails_when_a_part_was_replaced(blobs: S3Blobs) -> None:
    await blobs.append(BLOB, iterate_in(LARGE[: PART + 9]), offset=0, size=len(LARGE))
    key = blobs._locate(BLOB)
    [upload] = await list_uploads(blobs._bucket, key)
    with pytest.raises(BlobsUnavailable):
        await complete_upload(blobs._bucket, key, upload, [Part(number=1, size=PART, tag='"0123"')])


def test_parts_fit_into_an_upload_whatever_the_size() -> None:
    assert choose_part_bytes(0) == choose_part_bytes(10 << 30) == 8 << 20
    for size in (1 << 40, 5 << 40):
        assert size / choose_part_bytes(size) <= 10_000
