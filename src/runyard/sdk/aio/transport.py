"""Sends calls to a server: signs them in, repeats them where that is safe, and refreshes tokens."""

import asyncio
from asyncio import Lock, to_thread
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any

import httpx2

from runyard.sdk.calls import MOST_ANSWER_BYTES, Answer, Call, FilePart
from runyard.sdk.connections import (
    advise_on_answer,
    is_loopback,
    is_permanent,
    make_answer_error,
    make_connection_error,
    report_certificate_file,
    was_sent,
)
from runyard.sdk.credentials import Credentials
from runyard.sdk.errors import ArgumentError, NotSignedIn, UnexpectedResponse
from runyard.sdk.local_files import CHUNK_BYTES
from runyard.sdk.retry import Attempts

SILENT_SECONDS = 30.0
"""How long a followed log may be silent before it is asked for again: a server that vanished says nothing."""
USER_AGENT = "runyard-sdk"
_NO_PROXY: Mapping[str, None] = {"http://": None, "https://": None}
"""Without the proxies of the environment, whose SSL_CERT_FILE counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A response whatever its status, and how it came."""

    answer: Answer
    certificate: Mapping[str, Any] | None
    """The server's, as Python's `ssl` reads it."""
    seconds: float


class AsyncTransport:
    """A connection pool to one server. Close it when it is not needed anymore."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        transport: httpx2.AsyncBaseTransport | None = None,
        timeout: float = 30.0,
        retry_seconds: float = 10.0,
        follow_seconds: float = 300.0,
    ) -> None:
        self.credentials = credentials
        self.follow_seconds = follow_seconds
        self._retry_seconds = retry_seconds
        self.timeout = timeout
        self._lock = Lock()
        # No transport of its own is named for them, so that proxies are not used; SSL_CERT_FILE is, also on loopback.
        direct = _NO_PROXY if is_loopback(credentials.endpoint) else None
        with report_certificate_file():
            self._client = httpx2.AsyncClient(
                base_url=credentials.endpoint,
                timeout=timeout,
                transport=transport,
                mounts=direct,
                headers={"User-Agent": USER_AGENT},
            )

    async def aclose(self) -> None:
        """Close all connections. Idempotent."""
        await self._client.aclose()

    async def fetch(self, call: Call, *, retry_seconds: float | None = None) -> Any:
        """Send a call and return the JSON of its answer. Raises `RunyardError`."""
        return self.parse(await self.send(call, retry_seconds=retry_seconds), path=call.path)

    def parse(self, answer: Answer, *, path: str) -> Any:
        """The JSON of an answer. Raises `UnexpectedResponse`."""
        content = answer.find_json()
        if content is None:
            shown = " ".join(answer.text[:200].split())
            advice = advise_on_answer(self.credentials.endpoint)
            raise UnexpectedResponse(f"{path}: the response is not JSON: {shown}{advice}")
        return content

    async def send(self, call: Call, *, retry_seconds: float | None = None) -> Answer:
        """Send a call, several times if that is safe and helps. Raises `RunyardError` for any answer but 2xx."""
        attempts = Attempts(self._retry_seconds if retry_seconds is None else retry_seconds, now=monotonic())
        is_refreshed = False
        while True:
            used = self.credentials.authorization
            try:
                answer = await self._send_once(call)
            except httpx2.TransportError as error:
                may_repeat = (call.may_repeat or not was_sent(error)) and not is_permanent(error)
                pause = attempts.find_pause(now=monotonic()) if may_repeat else None
                if pause is None:
                    raise make_connection_error(error, self.credentials.endpoint) from error
            else:
                if answer.status < 300:
                    return answer
                if answer.status == 401 and not is_refreshed and await self._sign_in_again(used):
                    is_refreshed = True
                    continue
                pause = attempts.find_pause_after_answer(call, answer.status, answer.headers, now=monotonic())
                if pause is None:
                    raise self._explain(make_answer_error(answer, self.credentials.endpoint))
            await asyncio.sleep(pause)

    async def probe(self, path: str) -> Probe:
        """Ask once, without credentials. Raises `ServerUnreachable` and `UnexpectedResponse`."""
        begun = monotonic()
        try:
            response = await self._client.send(self._client.build_request("GET", path), stream=True)
            try:
                tls = response.extensions["network_stream"].get_extra_info("ssl_object")
                certificate = None if tls is None else tls.getpeercert()
                answer = await _read(response)
            finally:
                await response.aclose()
        except httpx2.TransportError as error:
            raise make_connection_error(error, self.credentials.endpoint) from error
        if 300 <= answer.status < 400:
            raise make_answer_error(answer, self.credentials.endpoint)
        return Probe(answer=answer, certificate=certificate, seconds=monotonic() - begun)

    async def pause(self, seconds: float) -> None:
        """Wait before another attempt."""
        await asyncio.sleep(seconds)

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[httpx2.Response]:
        """One attempt at a response that is read piece by piece. Raises `httpx2.TransportError` and `RunyardError`."""
        timeout = httpx2.Timeout(self.timeout, read=SILENT_SECONDS)
        used = self.credentials.authorization
        response = await self._client.send(self._build(call, timeout=timeout), stream=True)
        try:
            if response.status_code == 401 and await self.refresh(used):
                await response.aclose()
                response = await self._client.send(self._build(call, timeout=timeout), stream=True)
            if response.status_code >= 300:
                raise self._explain(make_answer_error(await _read(response), self.credentials.endpoint))
            yield response
        finally:
            await response.aclose()

    async def _send_once(self, call: Call) -> Answer:
        response = await self._client.send(self._build(call), stream=True)
        try:
            return await _read(response)
        finally:
            await response.aclose()

    def _build(self, call: Call, *, timeout: httpx2.Timeout | None = None) -> httpx2.Request:
        headers = dict(call.headers)
        if call.form is None and self.credentials.authorization is not None:
            headers["Authorization"] = self.credentials.authorization
        if timeout is None and call.read_seconds is not None:
            timeout = httpx2.Timeout(self.timeout, read=max(self.timeout, call.read_seconds))
        more: dict[str, Any] = {} if timeout is None else {"timeout": timeout}
        if call.file is not None:
            more["content"] = _iter_file(call.file)
        return self._client.build_request(
            call.method,
            call.path,
            params=dict(call.query) or None,
            json=call.body,
            data=call.form,
            headers=headers,
            **more,
        )

    async def _sign_in_again(self, used: str | None) -> bool:
        """Get a new access token. Raises `ServerUnreachable`: it is not repeated, as a refresh token is used up."""
        try:
            return await self.refresh(used)
        except httpx2.TransportError as error:
            raise make_connection_error(error, self.credentials.endpoint) from error

    async def refresh(self, used: str | None) -> bool:
        """Get a new access token, if there is a refresh token. One call does it for all that need it."""
        async with self._lock:
            if self.credentials.authorization != used:
                return True
            given = self.credentials
            if given.refresh_token is None:
                return False
            form = {
                "grant_type": "refresh_token",
                "refresh_token": given.refresh_token,
                "client_id": given.client_id,
                "scope": "credentials",
            }
            path = given.token_endpoint or f"{given.endpoint}/auth/token"
            answer = await self._send_once(Call(method="POST", path=path, form=form))
            content = answer.find_json()
            if answer.status >= 300 or not isinstance(content, Mapping) or "access_token" not in content:
                return False
            refresh_token = content.get("refresh_token")
            self.credentials = given.refreshed(str(content["access_token"]), refresh_token)
            return True

    def _explain(self, error: Exception) -> Exception:
        """Say what to do about a refused sign-in."""
        if not isinstance(error, NotSignedIn):
            return error
        given = self.credentials
        known = "no credentials" if given.authorization is None else "the credentials are not accepted"
        message = f"{given.endpoint}: {known} ({given.source}): {error.message}; sign in with `runyard login`"
        return NotSignedIn(message, status=error.status, code=error.code, request_id=error.request_id)


async def _iter_file(part: FilePart) -> AsyncIterator[bytes]:
    """The bytes, piece by piece. Raises `ArgumentError` if the file has changed: no other attempt would help."""
    try:
        stream = await to_thread(part.path.open, "rb")
        try:
            await to_thread(stream.seek, part.start)
            left = part.size
            while left > 0:
                chunk = await to_thread(stream.read, min(CHUNK_BYTES, left))
                if not chunk:
                    raise ArgumentError(f"{part.path}: became shorter while it was uploaded")
                left -= len(chunk)
                yield chunk
                part.on_sent(part.start + part.size - left)
        finally:
            await to_thread(stream.close)
    except OSError as error:
        raise ArgumentError(f"{part.path}: cannot be read: {error.strerror or error}") from None


async def _read(response: httpx2.Response) -> Answer:
    """Read a response into memory. Raises `UnexpectedResponse` if it is too large."""
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > MOST_ANSWER_BYTES:
            raise UnexpectedResponse(f"the response is larger than {MOST_ANSWER_BYTES} bytes")
    return Answer(
        response.status_code, {name.lower(): value for name, value in response.headers.items()}, bytes(content)
    )
