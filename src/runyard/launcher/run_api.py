"""The API of Runyard as a run uses it: with its own token, and with retries that outlast a restart of the server."""

import contextlib
import copy
import http.client
import json
import os
import random
import ssl
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote, urlsplit

from .failures import NotReported

REQUEST_SECONDS = 60.0
"""Without an answer for so long, a request has failed and is repeated."""
LARGEST_ANSWER_BYTES = 64 << 20
"""Of an answer of the server."""
LARGEST_ERROR_CHARACTERS = 500
"""Of the server's message that a failure quotes."""
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
"""Between two attempts: doubled each time, up to this, with jitter against a thundering herd."""
UNAUTHORIZED_SECONDS = 30.0
"""How long a refused token (401) is tried again. After that the run was deleted, or its token has expired."""
_REMINDER_SECONDS = 60.0
_BLOCK_BYTES = 256 << 10
_RETRIED = frozenset({401, 408, 425, 429})


@dataclass(frozen=True)
class Answer:
    """An answer of the server; `document` is its JSON."""

    status: int
    headers: Mapping[str, str]
    document: Any


class AttemptFailed(Exception):
    """One attempt had no usable answer; another one may."""

    def __init__(self, reason: str, *, status: int | None = None, pause_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.pause_seconds = pause_seconds


class RunApi:
    """Requests of one run. `pause` waits between attempts; whatever it raises ends the retries."""

    def __init__(
        self,
        endpoint: str,
        token: str | None,
        *,
        project: str,
        run_id: str,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._address = urlsplit(endpoint)
        self._token = token
        self._project = f"/api/v1/-/{quote(project, safe='')}"
        self._run = f"{self._project}/runs/{quote(run_id, safe='')}"
        self._pause = pause

    def with_pause(self, pause: Callable[[float], object]) -> "RunApi":
        """The same API for another thread, which waits in another way."""
        other = copy.copy(self)
        other._pause = pause  # noqa: SLF001 - a copy of our own
        return other

    def get_effective(self) -> dict[str, Any]:
        """The answer of `GET …/effective`: the run as it was resolved."""
        return expect_object(self.request("GET", f"{self._run}/effective").document)

    def get_run(self) -> Answer:
        """The run as it is stored, with its ETag."""
        return self.request("GET", self._run)

    def report(self, *, results: Mapping[str, Any], outputs: Mapping[str, str]) -> None:
        """Merge results and outputs into the run's status: retry on conflict, retries until the server has them."""
        while True:
            read = self.get_run()
            run = expect_object(read.document)
            status = run.get("status") or {}
            merged = {
                "results": {**(status.get("results") or {}), **results},
                "outputs": {**(status.get("outputs") or {}), **outputs},
            }
            body = {key: run[key] for key in ("id", "kind", "project") if key in run} | {"status": merged}
            headers = {"If-Match": read.headers["etag"]} if "etag" in read.headers else {}
            if self.request("PUT", self._run, body=body, headers=headers, accepted=(412,)).status != 412:
                return

    def put_metric(self, name: str, values: "float | list[float]") -> None:
        """Replace a metric of the run by a number or a series."""
        self.request("PUT", f"{self._run}/metrics/{quote(name, safe='')}", body=values)

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        accepted: tuple[int, ...] = (),
    ) -> Answer:
        """One request, repeated until the server answers it; raises `NotReported` if it refuses it."""
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        return self._retry(method, lambda: self._send(method, path, data=data, headers=headers or {}), accepted)

    def request_in_project(self, method: str, path: str, *, body: Any = None, accepted: tuple[int, ...] = ()) -> Answer:
        """The same for a path below the project, such as `/artifacts`."""
        return self.request(method, f"{self._project}{path}", body=body, accepted=accepted)

    def upload(self, path: str, file: Path, *, headers: Mapping[str, str]) -> None:
        """PUT a file's bytes to a path below the project; read again from its start for each attempt."""

        def attempt() -> Answer:
            with file.open("rb") as content:
                size = os.fstat(content.fileno()).st_size
                return self._send(
                    "PUT",
                    f"{self._project}{path}",
                    data=content,
                    headers={"Content-Type": "application/octet-stream", "Content-Length": str(size), **headers},
                )

        self._retry("PUT", attempt)

    def download(self, path: str, write: Callable[[http.client.HTTPResponse], None]) -> None:
        """GET a path below the project; `write` reads the bytes, again from the start for each attempt."""

        def attempt() -> Answer:
            return self._send("GET", f"{self._project}{path}", data=None, headers={"Accept": "*/*"}, write=write)

        self._retry("GET", attempt)

    def _retry(self, method: str, attempt: Callable[[], Answer], accepted: tuple[int, ...] = ()) -> Answer:
        begun = told = time.monotonic()
        pause, count = FIRST_PAUSE_SECONDS, 0
        while True:
            count += 1
            try:
                answer = attempt()
                if answer.status < 300 or answer.status in accepted:
                    return answer
                _refuse(answer, method)
            except AttemptFailed as failure:
                now = time.monotonic()
                if failure.status == 401 and now - begun > UNAUTHORIZED_SECONDS:
                    message = "the server does not accept the run's token: the run was deleted, or its token expired"
                    raise NotReported(message) from None
                if count == 1 or now - told > _REMINDER_SECONDS:
                    told = now
                    sys.stderr.write(f"runyard: {method} to the server failed, trying again: {failure}\n")
                self._pause(failure.pause_seconds or pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def _send(
        self,
        method: str,
        path: str,
        *,
        data: "bytes | BinaryIO | None",
        headers: Mapping[str, str],
        write: Callable[[http.client.HTTPResponse], None] | None = None,
    ) -> Answer:
        connection = self._connect()
        try:
            # A server that refuses an upload answers before it has read all of it.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                sent = self._make_headers(headers)
                connection.request(method, f"{self._address.path}{path}", body=data, headers=sent)
            response = connection.getresponse()
            received = {name.lower(): value for name, value in response.getheaders()}
            if write is not None and response.status == 200:
                write(response)
                return Answer(response.status, received, None)
            content = response.read(LARGEST_ANSWER_BYTES + 1)
            # A read of so many bytes at most does not notice that the connection ended before the answer did.
            if response.length and len(content) <= LARGEST_ANSWER_BYTES:
                raise http.client.IncompleteRead(content, response.length)
        except (OSError, http.client.HTTPException) as error:
            raise AttemptFailed(_describe_network_error(error)) from error
        finally:
            connection.close()
        if len(content) > LARGEST_ANSWER_BYTES:
            raise NotReported(f"the server's answer is larger than {LARGEST_ANSWER_BYTES >> 20} MiB")
        return Answer(response.status, received, _read_document(content, response.status))

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._address.hostname or "", self._address.port
        if self._address.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(
                host, port, timeout=REQUEST_SECONDS, context=context, blocksize=_BLOCK_BYTES
            )
        return http.client.HTTPConnection(host, port, timeout=REQUEST_SECONDS, blocksize=_BLOCK_BYTES)

    def _make_headers(self, more: Mapping[str, str]) -> dict[str, str]:
        headers = {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": "runyard-launcher"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        return {**headers, **more}


def _refuse(answer: Answer, method: str) -> None:
    """Raise `AttemptFailed` for a status that may pass, and `NotReported` for one that will not."""
    text = _find_message(answer.document)
    reason = f"HTTP {answer.status}" + (f": {text}" if text else "")
    if answer.status in _RETRIED or answer.status >= 500:
        raise AttemptFailed(reason, status=answer.status, pause_seconds=_read_retry_after(answer.headers))
    if answer.status == 404:
        raise NotReported(f"the server does not know this run; it was deleted ({reason})")
    raise NotReported(f"the server refused the {method} of this run: {reason}")


def _read_retry_after(headers: Mapping[str, str]) -> float | None:
    text = headers.get("retry-after", "").strip()
    return min(float(text[:6]), LONGEST_PAUSE_SECONDS) if text.isascii() and text.isdigit() else None


def _read_document(content: bytes, status: int) -> Any:
    try:
        return json.loads(content) if content.strip() else {}
    except ValueError as error:
        if status < 300:
            # A proxy's page, for example while the server is restarted.
            raise AttemptFailed(f"HTTP {status} without JSON") from error
        return None


def _find_message(document: Any) -> str | None:
    message = document.get("message") if isinstance(document, dict) else None
    return " ".join(message[:LARGEST_ERROR_CHARACTERS].split()) if isinstance(message, str) else None


def expect_object(document: Any) -> dict[str, Any]:
    """The document of an answer that must be a JSON object; raises `NotReported`."""
    if not isinstance(document, dict):
        raise NotReported("the server's answer is not a JSON object")
    return document


def _describe_network_error(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {REQUEST_SECONDS:.0f} s"
    if isinstance(error, http.client.HTTPException):
        return f"the connection ended in the middle ({type(error).__name__})"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
