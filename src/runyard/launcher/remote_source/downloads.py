"""Downloads of source over HTTP(S) and S3: bounded in size, time and redirects, and without the run's token."""

import base64
import http.client
import importlib
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import unquote, urlsplit, urlunsplit

from ..failures import NotPrepared

LARGEST_DOWNLOAD_BYTES = 512 << 20
"""Of one source file or archive."""
LONGEST_DOWNLOAD_SECONDS = 1800.0
"""For one source file or archive."""
SILENCE_SECONDS = 60.0
"""Without a byte for so long, a download has failed."""
MOST_REDIRECTS = 5
"""Of one download."""
MOST_ATTEMPTS = 5
"""Of one download, when the connection or the other server fails."""
_CHUNK_BYTES = 1 << 20
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _TryAgain(Exception):
    """The download failed in a way that may pass."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    max_redirections = MOST_REDIRECTS

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Follow to http(s) only, and never from https to http."""
        scheme = urlsplit(newurl).scheme
        if scheme not in ("http", "https"):
            raise NotPrepared(f"the source redirects to the scheme {scheme[:20]}, which is not allowed")
        if req.type == "https" and scheme == "http":
            raise NotPrepared("the source redirects from https to http, which is not allowed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def redact(address: str) -> str:
    """The address without user name, password and query, for messages and logs."""
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))[:200]


def download(address: str, into: Path, *, pause: Callable[[float], object] = time.sleep) -> None:
    """Download an http(s) address to a file, with a few attempts; raises `NotPrepared`."""
    for attempt in range(1, MOST_ATTEMPTS + 1):
        problem = _attempt(address, into)
        if problem is None:
            return
        if attempt < MOST_ATTEMPTS:
            sys.stderr.write(f"runyard: {redact(address)}: {problem}; trying again\n")
            pause(2.0 ** (attempt - 1))
    raise NotPrepared(f"the source {redact(address)} cannot be downloaded: {problem}")


def download_s3(address: str, into: Path) -> None:
    """Download an `s3://bucket/key` address to a file by boto3, where the function's environment has it."""
    parts = urlsplit(address)
    bucket, key = parts.netloc, unquote(parts.path).lstrip("/")
    if not bucket or not key:
        raise NotPrepared(f"the source {redact(address)} must be s3://bucket/key")
    try:
        boto3 = importlib.import_module("boto3")
    except ImportError:
        raise NotPrepared(
            "a source in S3 needs boto3, which is not installed; add boto3 to the function's `requirements`"
        ) from None
    try:
        options = {"endpoint_url": os.environ["AWS_ENDPOINT_URL"]} if os.environ.get("AWS_ENDPOINT_URL") else {}
        body = boto3.client("s3", **options).get_object(Bucket=bucket, Key=key)["Body"]
        _copy(body, into)
    except (NotPrepared, OSError):
        raise
    except Exception as error:
        text = " ".join(str(error)[:300].split())
        raise NotPrepared(f"the source {redact(address)} cannot be downloaded: {text}") from error


def _attempt(address: str, into: Path) -> str | None:
    """None if it is downloaded; else why it failed, if another attempt may succeed. Raises `NotPrepared`."""
    try:
        with _make_opener().open(_make_request(address), timeout=SILENCE_SECONDS) as response:
            _copy(response, into)
    except urllib.error.HTTPError as error:
        with error:
            if error.code not in _PASSING:
                loop = f"more than {MOST_REDIRECTS} redirects, or one without a usable address"
                reason = loop if 300 <= error.code < 400 else f"HTTP {error.code}"
                raise NotPrepared(f"the source {redact(address)} cannot be downloaded: {reason}") from None
            return f"HTTP {error.code}"
    except urllib.error.URLError as error:
        return str(error.reason)[:200]
    except (http.client.HTTPException, OSError) as error:
        return str(error)[:200] or type(error).__name__
    except ValueError:
        raise NotPrepared(f"the source {redact(address)} is not a valid address") from None
    return None


def _make_opener() -> urllib.request.OpenerDirector:
    opener = urllib.request.OpenerDirector()
    handlers: tuple[Any, ...] = (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        _Redirects(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    )
    for handler in handlers:
        opener.add_handler(handler)
    return opener


def _make_request(address: str) -> urllib.request.Request:
    parts = urlsplit(address)
    credentials, at, host = parts.netloc.rpartition("@")
    plain = urlunsplit((parts.scheme, host, parts.path, parts.query, ""))
    request = urllib.request.Request(plain, headers={"User-Agent": "runyard-launcher"})  # noqa: S310 - http(s) only
    if at:
        text = base64.b64encode(unquote(credentials).encode()).decode()
        # Not sent again after a redirect, which may lead to another host.
        request.add_unredirected_header("Authorization", f"Basic {text}")
    return request


def _copy(response: _Readable, into: Path) -> None:
    deadline, size = time.monotonic() + LONGEST_DOWNLOAD_SECONDS, 0
    expected = getattr(response, "length", None)
    with into.open("wb") as file:
        while chunk := response.read(_CHUNK_BYTES):
            size += len(chunk)
            if size > LARGEST_DOWNLOAD_BYTES:
                raise NotPrepared(f"the source is larger than {LARGEST_DOWNLOAD_BYTES >> 20} MiB")
            if time.monotonic() > deadline:
                raise NotPrepared(f"the source took longer than {LONGEST_DOWNLOAD_SECONDS:.0f} s to download")
            file.write(chunk)
    if isinstance(expected, int) and size < expected:
        raise http.client.IncompleteRead(b"", expected - size)
