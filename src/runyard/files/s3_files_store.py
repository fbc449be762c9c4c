"""`app.files_store.FilesStore` in S3: the bucket that clients use by themselves."""

from collections.abc import AsyncIterator, Callable, Sequence

from runyard.app.blob_store import BlobMissing
from runyard.app.files_store import ClientFile
from runyard.files.s3 import WriterTurns, make_error, write_object
from runyard.s3.aws_signature import Signer
from runyard.s3.bucket import Bucket, ObjectInfo
from runyard.s3.errors import ObjectMissing

_BINARY = "application/octet-stream"


def open_s3_files_store(
    place: str, *, endpoint: str | None, region: str, access_key: str, secret_key: str
) -> "S3FilesStore":
    """The store at `s3://bucket/prefix`. Sends nothing yet."""
    name = place.removeprefix("s3://").partition("/")[0]
    signer = Signer(access_key=access_key, secret_key=secret_key, region=region)
    return S3FilesStore(Bucket(name, endpoint=endpoint, signer=signer, make_error=make_error), place=place)


class S3FilesStore:
    """Made by `open_s3_files_store`; belongs to one event loop."""

    def __init__(self, bucket: Bucket, *, place: str) -> None:
        self._bucket = bucket
        self.place = place
        self._turns = WriterTurns()

    async def find(self, key: str) -> ClientFile | None:
        """See `FilesStore`."""
        found = await self._bucket.find_info(key)
        return None if found is None else _make_file(found)

    async def list_files(self, prefix: str, *, most: int) -> Sequence[ClientFile]:
        """See `FilesStore`. Keys that end with a slash stand for folders in some tools."""
        found = await self._bucket.list_objects(prefix, most=most)
        return [_make_file(one) for one in found if not one.key.endswith("/")]

    async def read(self, file: ClientFile, *, start: int, size: int) -> AsyncIterator[bytes]:
        """See `FilesStore`."""
        try:
            async for chunk in self._bucket.iter_bytes(file.key, start=start, size=size, tag=file.tag):
                yield chunk
        except ObjectMissing as error:
            raise BlobMissing(f"{file.path} was deleted or replaced during the download") from error

    async def write(
        self, key: str, chunks: AsyncIterator[bytes], *, size: int, content_type: str, check: Callable[[str], None]
    ) -> None:
        """See `FilesStore`."""
        async with self._turns.take():
            await write_object(self._bucket, key, chunks, size=size, content_type=content_type, check=check)

    async def delete(self, key: str) -> None:
        """See `FilesStore`."""
        await self._bucket.delete((key,))

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._bucket.close()


def _make_file(found: ObjectInfo) -> ClientFile:
    return ClientFile(
        key=found.key, size=found.size, content_type=found.content_type or _BINARY, at=found.at, tag=found.tag
    )
