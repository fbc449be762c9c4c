"""A bucket of S3-compatible storage: get, put, delete, list. Knows nothing of logs."""

import asyncio
import base64
import hashlib
import random
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from urllib.parse import urlsplit

import httpx2

from runyard.logs.aws_signature import Signer, encode_path, encode_query, format_time
from runyard.logs.errors import LogsUnavailable

ATTEMPTS = 4
SECONDS = 30.0
_AT_ONCE = 8
_NOTE = "x-amz-meta-runyard-note"
_AGAIN = frozenset({408, 429, 500, 502, 503, 504})


class Bucket:
    """Signed requests to one bucket. Retries transient failures; all requests are idempotent."""

    def __init__(self, name: str, *, endpoint: str | None, signer: Signer) -> None:
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
        self._client: httpx2.AsyncClient | None = None
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def put(self, key: str, content: bytes, *, note: bytes = b"") -> None:
        """Store an object with a note, in one step. Every reader sees both when this returns."""
        headers = {_NOTE: base64.b64encode(note).decode()} if note else {}
        await self._send("PUT", key, content=content, headers=headers)

    async def find(self, key: str) -> bytes | None:
        """An object's content, or None."""
        answer = await self._send("GET", key)
        return None if answer.status_code == 404 else answer.content

    async def find_note(self, key: str) -> bytes | None:
        """The note of an object, empty if it has none; None without an object."""
        answer = await self._send("HEAD", key)
        return None if answer.status_code == 404 else base64.b64decode(answer.headers.get(_NOTE, ""))

    async def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; missing ones are ignored."""

        async def delete_one(key: str) -> None:
            async with self._turns:
                await self._send("DELETE", key)

        await asyncio.gather(*map(delete_one, keys))

    async def list_keys(self, prefix: str, *, after: str = "") -> list[str]:
        """All keys with that prefix after the given key, in order."""
        keys: list[str] = []
        query = {"list-type": "2", "prefix": prefix, **({"start-after": after} if after else {})}
        while True:
            answer = await self._send("GET", "", query=query)
            try:
                root = ET.fromstring(answer.content)  # noqa: S314 - from the storage that we trust with the logs
            except ET.ParseError as error:
                raise LogsUnavailable(f"{self._host} responded with something that is not a list of keys") from error
            keys += [found.text or "" for found in root.iterfind("{*}Contents/{*}Key")]
            token = root.findtext("{*}NextContinuationToken")
            if root.findtext("{*}IsTruncated") != "true" or not token:
                return keys
            query["continuation-token"] = token

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _send(
        self,
        method: str,
        key: str,
        *,
        query: Mapping[str, str] | None = None,
        content: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """The response, if it is a success or 404. Raises `LogsUnavailable` otherwise."""
        wait, reason = 0.1, ""
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(wait * random.uniform(0.5, 1.5))  # noqa: S311 - to spread, not to hide
                wait *= 4
            try:
                answer = await self._send_once(method, key, query=query or {}, content=content, headers=headers or {})
            except httpx2.TransportError as error:
                reason = f"{type(error).__name__}: {error}"
                continue
            code = "" if answer.is_success else _find_code(answer)
            if answer.is_success or (answer.status_code == 404 and method != "PUT" and code != "NoSuchBucket"):
                return answer
            reason = f"status {answer.status_code} {code}".strip()
            if answer.status_code not in _AGAIN:
                break
        raise LogsUnavailable(f"{method} of an object at {self._host} failed: {reason}")

    async def _send_once(
        self, method: str, key: str, *, query: Mapping[str, str], content: bytes, headers: Mapping[str, str]
    ) -> httpx2.Response:
        path = encode_path(f"{self._root}/{key}" if key or not self._root else self._root)
        now = datetime.now(UTC)
        digest = hashlib.sha256(content).hexdigest()
        signed = {"host": self._host, "x-amz-content-sha256": digest, "x-amz-date": format_time(now), **headers}
        signed["authorization"] = self._signer.sign(
            method, path, query=query, headers=signed, content_hash=digest, at=now
        )
        url = f"{self._base}{path}" + (f"?{encode_query(query)}" if query else "")
        if self._client is None:
            self._client = httpx2.AsyncClient(timeout=SECONDS, trust_env=False)
        return await self._client.request(method, url, headers=signed, content=content or None)


def _find_code(answer: httpx2.Response) -> str:
    """S3's error code, such as `AccessDenied`."""
    try:
        return ET.fromstring(answer.content).findtext("{*}Code") or ""  # noqa: S314 - as in `list_keys`
    except ET.ParseError:
        return ""
