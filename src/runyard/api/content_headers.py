"""Headers of file contents: digests (RFC 9530), entity tags, conditions and byte ranges (RFC 9110)."""

import base64
import binascii
import mimetypes
import re
from dataclasses import dataclass
from datetime import UTC
from email.utils import format_datetime
from pathlib import PurePosixPath
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request

from runyard.app.files import AnyFile, Condition
from runyard.app.model import StoredFile
from runyard.spec.problem_codes import Code
from runyard.spec.readers import refuse

MOST_TYPE_CHARACTERS = 200
"""Characters of a `Content-Type`."""
BINARY = "application/octet-stream"
_DIGEST = re.compile(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/=]{44}):\s*(?:,|$)", re.ASCII)
_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+[ \t]*(?:;[A-Za-z0-9!#$&^_.+=\"' \t-]+)*", re.ASCII)
_TAG = re.compile(r'\s*(?:W/)?"([0-9a-f]{64})"\s*', re.ASCII)
_RANGE = re.compile(r"\s*+bytes\s*+=\s*+([0-9]{0,18})\s*+-\s*+([0-9]{0,18})\s*+", re.ASCII)
_TYPES = mimetypes.MimeTypes(filenames=())
"""The table of the standard library: that of the machine differs from one to another."""


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes from `start` up to and including `last`."""

    start: int
    last: int

    @property
    def size(self) -> int:
        """How many bytes."""
        return self.last - self.start + 1


def read_length(request: Request) -> int:
    """The size of the body. Raises 411 without one: room is reserved before the first byte is read."""
    given = request.headers.get("content-length", "")
    if not given.isascii() or not given.isdigit() or len(given) > 18:
        raise HTTPException(411, "an upload needs its size in `Content-Length`; send a file, not a pipe")
    return int(given)


def read_digest(request: Request) -> str | None:
    """The SHA-256 of `Content-Digest` or `Repr-Digest` in hexadecimal; None without such a header."""
    for name in ("Content-Digest", "Repr-Digest"):
        if (given := request.headers.get(name)) is None:
            continue
        found = _DIGEST.search(given[:1000])
        try:
            digest = base64.b64decode(found[1], validate=True) if found else b""
        except binascii.Error:
            digest = b""
        if len(digest) != 32:
            allowed = "sha-256=:BASE64:, with the 32 bytes of the digest in base64"
            raise refuse(Code.HEADER_DIGEST, "has no SHA-256 digest", path=("header", name), allowed=allowed)
        return digest.hex()
    return None


def read_content_type(request: Request, path: str) -> str:
    """The type that the client states, or one that the name suggests."""
    given = request.headers.get("content-type", "").strip()
    # What curl adds by itself says nothing about the file.
    if not given or given == "application/x-www-form-urlencoded":
        return guess_media_type(path)
    if given.lower().startswith("multipart/"):
        raise HTTPException(415, "the body must be the bytes of the file, not a form; with curl: --upload-file")
    return read_media_type(given, path=("header", "Content-Type"))


def read_media_type(given: str, *, path: tuple[str, ...]) -> str:
    """A media type; raises `Refused`."""
    if len(given) > MOST_TYPE_CHARACTERS or not _TYPE.fullmatch(given):
        allowed = f"a media type such as text/csv, at most {MOST_TYPE_CHARACTERS} characters"
        raise refuse(Code.HEADER_CONTENT_TYPE, "not a media type", path=path, allowed=allowed)
    return given


def guess_media_type(path: str) -> str:
    """The type that the name of a file suggests."""
    guessed, encoding = _TYPES.guess_type(PurePosixPath(path).name)
    return guessed if guessed is not None and encoding is None else BINARY


def read_offset(request: Request) -> int:
    """How many bytes of an upload the client believes to be stored (`Upload-Offset`); raises `Refused`."""
    given = request.headers.get("upload-offset", "").strip()
    if not given.isascii() or not given.isdigit() or len(given) > 18:
        message = "not a number of bytes" if given else "missing"
        where = ("header", "Upload-Offset")
        raise refuse(Code.HEADER_OFFSET, message, path=where, value=given[:80] or None, allowed="a number from 0 on")
    return int(given)


def read_condition(request: Request) -> Condition:
    """The condition of a change: `If-None-Match: *` for a new file, `If-Match` with the ETag of the one to replace."""
    if_none_match, if_match = request.headers.get("if-none-match"), request.headers.get("if-match")
    if if_none_match is not None and if_none_match.strip() != "*":
        message = "must be `*`, for a file that does not exist yet"
        raise refuse(Code.HEADER_IF_MATCH, message, path=("header", "If-None-Match"), value=if_none_match[:80])
    if if_match is None:
        return Condition(is_new=if_none_match is not None)
    found = _TAG.fullmatch(if_match)
    if found is None or if_none_match is not None:
        message = "not the ETag of a file"
        raise refuse(Code.HEADER_IF_MATCH, message, path=("header", "If-Match"), value=if_match[:80])
    return Condition(sha256=found[1])


def is_unchanged(request: Request, file: AnyFile) -> bool:
    """Whether the client has the file already (`If-None-Match`): the answer is 304."""
    given = request.headers.get("if-none-match", "")[:10_000]
    return given.strip() == "*" or any(tag.strip().removeprefix("W/") == file.tag for tag in given.split(","))


def read_range(request: Request, file: AnyFile) -> ByteRange | None:
    """The bytes of `Range`; None for the whole file, also for several ranges. Raises 416.

    `If-Range` makes it the whole file if that has changed.
    """
    found = _RANGE.fullmatch(request.headers.get("range", "")[:100])
    expected = request.headers.get("if-range")
    if found is None or found.groups() == ("", "") or (expected is not None and expected.strip() != file.tag):
        return None
    first, last = found.groups()
    if first:
        start, end = int(first), min(int(last), file.size - 1) if last else file.size - 1
    else:
        start, end = max(0, file.size - int(last)), file.size - 1
    if last and first and int(last) < int(first):
        return None
    if start >= file.size:
        headers = {"Content-Range": f"bytes */{file.size}"}
        raise HTTPException(416, f"the file has {file.size} bytes", headers=headers)
    return ByteRange(start, end)


def make_headers(file: AnyFile) -> dict[str, str]:
    """The headers of an answer with the bytes of a file.

    The bytes are a user's: a browser must download them, never show them as a page of this server.
    """
    name = quote(PurePosixPath(file.path).name, safe="")
    digest = {}
    if isinstance(file, StoredFile):
        digest["Repr-Digest"] = f"sha-256=:{base64.b64encode(bytes.fromhex(file.sha256)).decode()}:"
    return {
        **digest,
        "ETag": file.tag,
        "Last-Modified": format_datetime(file.at.astimezone(UTC), usegmt=True),
        "Accept-Ranges": "bytes",
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-cache, private",
    }
