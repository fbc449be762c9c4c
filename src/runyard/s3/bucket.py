"""A bucket of S3-compatible storage: get, put, delete, list."""

import asyncio
import base64
import hashlib
import random
import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import httpx2

from runyard.s3.aws_signature import Signer, encode_path, encode_query, format_time
from runyard.s3.errors import ObjectMissing, S3Error

ATTEMPTS = 4
SECONDS = 30.0
HASHED_BYTES = 1 << 18
"""Longer contents are hashed on a thread."""
READ_BYTES = 1 << 18
_AT_ONCE = 8
_CONNECTIONS = 1000
"""More than the streams that the server allows by default: each download holds one."""
_NOTE = "x-amz-meta-runyard-note"
_AGAIN = frozenset({408, 429, 500, 502, 503, 504})

MakeError = Callable[[S3Error], Exception]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """What a bucket knows of an object."""

    key: str
    size: int
    tag: str
    """The ETag, with its quotes."""
    at: datetime
    content_type: str = ""
    note: bytes = b""


class Bucket:
    """Signed requests to one bucket. Retries transient failures; all requests are idempotent.

    `make_error` turns an `S3Error` into what the caller's port raises.
    """

    def __init__(self, name: str, *, endpoint: str | None, signer: Signer, make_error: MakeError) -> None:
        # Amazon needs the bucket in the host name; other servers and their certificates expect it in the path.
        if endpoint is None and "." not in name:
            self._base, self._root = f"https://{name}.s3.{signer.region}.amazonaws.com", ""
        else:
            base = endpoint or f"https://s3.{signer.region}.amazonaws.com"
            self._base, self._root = base, f"{urlsplit(base).path}/{name}"
        parts = urlsplit(self._base)
        self._base = f"{parts.scheme}://{parts.netloc}"
        self._host = parts.netloc
        self._signer = signer
        self._make_error = make_error
        self._client: httpx2.AsyncClient | None = None
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def put(self, key: str, content: bytes, *, note: bytes = b"", content_type: str = "") -> None:
        """Store an object with a note, in one step. Every reader sees both when this returns."""
        await self.send("PUT", key, content=content, headers=make_object_headers(note, content_type))

    async def find(self, key: str) -> bytes | None:
        """An object's content, or None."""
        answer = await self.send("GET", key)
        return None if answer.status_code == 404 else answer.content

    async def find_note(self, key: str) -> bytes | None:
        """The note of an object, empty if it has none; None without an object."""
        found = await self.find_info(key)
        return None if found is None else found.note

    async def find_info(self, key: str) -> ObjectInfo | None:
        """What is known of an object, or None."""
        answer = await self.send("HEAD", key)
        if answer.status_code == 404:
            return None
        headers = answer.headers
        return ObjectInfo(
            key=key,
            size=int(headers.get("content-length", "0")),
            tag=headers.get("etag", ""),
            at=_read_date(headers.get("last-modified", "")),
            content_type=headers.get("content-type", ""),
            note=base64.b64decode(headers.get(_NOTE, "")),
        )

    async def iter_bytes(self, key: str, *, start: int, size: int, tag: str = "") -> AsyncIterator[bytes]:
        """So many bytes from there on, in chunks. A lost connection is replaced by another one.

        Raises `ObjectMissing` if they end earlier, or if the object does not have the given tag.
        """
        end, failures = start + size, 0
        headers = {"if-match": tag} if tag else {}
        while start < end:
            if failures:
                await asyncio.sleep(0.1 * 4**failures * random.uniform(0.5, 1.5))  # noqa: S311 - to spread
            request = await self._make_request("GET", key, headers={**headers, "range": f"bytes={start}-{end - 1}"})
            try:
                answer = await self._get_client().send(request, stream=True)
                try:
                    await self._check_range(answer, key)
                    async for chunk in answer.aiter_bytes(READ_BYTES):
                        yield chunk
                        start, failures = start + len(chunk), 0
                finally:
                    await answer.aclose()
            except httpx2.TransportError as error:
                failures += 1
                if failures >= ATTEMPTS:
                    raise self.fail("GET", f"{type(error).__name__}: {error}") from error

    async def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; missing ones are ignored."""

        async def delete_one(key: str) -> None:
            async with self._turns:
                await self.send("DELETE", key)

        await asyncio.gather(*map(delete_one, keys))

    async def list_keys(self, prefix: str, *, after: str = "") -> list[str]:
        """All keys with that prefix after the given key, in order."""
        return [found.key for found in await self.list_objects(prefix, after=after)]

    async def list_objects(self, prefix: str, *, after: str = "", most: int | None = None) -> list[ObjectInfo]:
        """All objects with that prefix after the given key, in order of their keys; at most so many."""
        found: list[ObjectInfo] = []
        query = {"list-type": "2", "prefix": prefix, **({"start-after": after} if after else {})}
        while True:
            if most is not None:
                query["max-keys"] = str(min(1000, most - len(found)))
            root = self.parse(await self.send("GET", "", query=query))
            found += map(_read_listed, root.iterfind("{*}Contents"))
            token = root.findtext("{*}NextContinuationToken")
            is_last = root.findtext("{*}IsTruncated") != "true" or not token
            if is_last or not token or (most is not None and len(found) >= most):
                return found
            query["continuation-token"] = token

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def send(
        self,
        method: str,
        key: str,
        *,
        query: Mapping[str, str] | None = None,
        content: bytes = b"",
        headers: Mapping[str, str] | None = None,
        seconds: float = SECONDS,
    ) -> httpx2.Response:
        """The response, if it is a success or 404, which is a failure of PUT. Raises an error otherwise."""
        wait, reason, status, code = 0.1, "", 0, ""
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(wait * random.uniform(0.5, 1.5))  # noqa: S311 - to spread, not to hide
                wait *= 4
            try:
                request = await self._make_request(
                    method, key, query=query or {}, content=content, headers=headers or {}, seconds=seconds
                )
                answer = await self._get_client().send(request)
            except httpx2.TransportError as error:
                reason = f"{type(error).__name__}: {error}"
                continue
            code = "" if answer.is_success else _find_code(answer)
            if answer.is_success or (answer.status_code == 404 and method != "PUT" and code != "NoSuchBucket"):
                return answer
            status, reason = answer.status_code, f"status {answer.status_code} {code}".strip()
            if answer.status_code not in _AGAIN:
                break
        raise self.fail(method, reason, status=status, code=code)

    def parse(self, answer: httpx2.Response) -> ET.Element:
        """The XML of a response."""
        try:
            return ET.fromstring(answer.content)  # noqa: S314 - from the storage that we trust with the bytes
        except ET.ParseError as error:
            raise self.fail(answer.request.method, "the response is not XML") from error

    def fail(self, method: str, reason: str, *, status: int = 0, code: str = "") -> Exception:
        """The error of a request, to be raised."""
        message = f"{method} of an object at {self._host} failed: {reason}"
        return self._make_error(S3Error(message, status=status, code=code))

    async def _check_range(self, answer: httpx2.Response, key: str) -> None:
        if answer.status_code in (404, 412, 416):
            raise ObjectMissing(f"{key}: status {answer.status_code}")
        if answer.status_code != 206:
            await answer.aread()
            if answer.status_code in _AGAIN:
                raise httpx2.ReadError(f"status {answer.status_code}")
            raise self.fail("GET", f"status {answer.status_code} {_find_code(answer)}", status=answer.status_code)

    async def _make_request(
        self,
        method: str,
        key: str,
        *,
        query: Mapping[str, str] | None = None,
        content: bytes = b"",
        headers: Mapping[str, str] | None = None,
        seconds: float = SECONDS,
    ) -> httpx2.Request:
        path = encode_path(f"{self._root}/{key}" if key or not self._root else self._root)
        digest = await _hash(content)
        now = datetime.now(UTC)
        signed = {"host": self._host, "x-amz-content-sha256": digest, "x-amz-date": format_time(now), **(headers or {})}
        signed["authorization"] = self._signer.sign(
            method, path, query=query or {}, headers=signed, content_hash=digest, at=now
        )
        url = f"{self._base}{path}" + (f"?{encode_query(query)}" if query else "")
        return self._get_client().build_request(method, url, headers=signed, content=content or None, timeout=seconds)

    def _get_client(self) -> httpx2.AsyncClient:
        if self._client is None:
            limits = httpx2.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_AT_ONCE)
            self._client = httpx2.AsyncClient(timeout=SECONDS, trust_env=False, limits=limits)
        return self._client


def make_object_headers(note: bytes, content_type: str) -> dict[str, str]:
    """The headers that give an object its note and its type."""
    headers = {_NOTE: base64.b64encode(note).decode()} if note else {}
    return {**headers, **({"content-type": content_type} if content_type else {})}


async def _hash(content: bytes) -> str:
    if len(content) > HASHED_BYTES:
        return (await asyncio.to_thread(hashlib.sha256, content)).hexdigest()
    return hashlib.sha256(content).hexdigest()


def _find_code(answer: httpx2.Response) -> str:
    """S3's error code, such as `AccessDenied`."""
    try:
        return ET.fromstring(answer.content).findtext("{*}Code") or ""  # noqa: S314 - as in `Bucket.parse`
    except ET.ParseError:
        return ""


def _read_listed(found: ET.Element) -> ObjectInfo:
    return ObjectInfo(
        key=found.findtext("{*}Key") or "",
        size=int(found.findtext("{*}Size") or 0),
        tag=found.findtext("{*}ETag") or "",
        at=datetime.fromisoformat(found.findtext("{*}LastModified") or "1970-01-01T00:00:00Z"),
    )


def _read_date(text: str) -> datetime:
    try:
        return parsedate_to_datetime(text)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
