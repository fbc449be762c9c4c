"""Request bodies: JSON or YAML, bounded in bytes, values, depth and time."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from runyard.api.context import get_context
from runyard.app.entities import MOST_DEPTH, is_deeper
from runyard.spec.figures import format_bytes
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Refused
from runyard.spec.readers import refuse
from runyard.spec.strict_json import count_values, iter_texts, parse_json
from runyard.spec.yaml.loader import load_documents

JSON = ("application/json",)
YAML = ("application/x-yaml", "application/yaml", "text/yaml")
EXTRA_DEPTH = 4
"""Levels around the part of a document whose depth its own reader bounds."""
LARGE_BYTES = 1 << 16
"""Longer bodies, and all YAML, are parsed on a thread, so that they do not block the event loop."""
MOST_VALUES = 80_000
"""Values in a body, counted before it is parsed: the parser holds the interpreter lock (GIL) until it is done."""
MOST_DIGITS = 310
"""Characters of an integer, as many as the largest float has: writing an integer takes quadratic time."""
MOST_YAML_BYTES = 1 << 17
"""YAML takes a hundred times as long to parse as JSON; larger bodies must be JSON. Its nodes are many
objects, and a full garbage collection over them stops every thread."""
LEAST_BYTES_PER_SECOND = 1 << 16
"""A body may take longer than `Limits.body_total_seconds` by the time that its bytes take at this rate."""
_WITHOUT_VALUES = (Code.BODY_VALUES, Code.TOO_DEEP)
"""Problems that quote nothing of the body."""
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


async def read_body(request: Request, *, is_secret: bool = False) -> Any:
    """The document in the body; raises `Refused`, or 408, 413 and 415.

    With `is_secret`, errors do not quote the body, which may contain a password.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type not in (*JSON, *YAML):
        raise HTTPException(
            415, f"the body must be {JSON[0]} or {YAML[0]}, not {content_type or 'without a content type'}"
        )
    content = await read_bytes(request)
    try:
        return await (_parse_json(content) if content_type in JSON else _parse_yaml(request, content))
    except Refused as refused:
        if not is_secret or refused.problems[0].code in _WITHOUT_VALUES:
            raise
        message = "the body cannot be parsed; details are withheld because it contains values of secrets"
        raise refuse(Code.BODY_INVALID, message, allowed="JSON, or YAML with the values in quotes") from None


async def hold_body(request: Request) -> None:
    """Read the raw body before the request waits for its turn: a slow body must not take the turn of others."""
    request.state.content = await read_bytes(request)


async def read_bytes(request: Request, *, most: int | None = None) -> bytes:
    """The raw body, by default up to the limit of all bodies, whatever its header says.

    Raises 413 if it is larger, and 408 if it stalls or takes too long as a whole (slow-body attack).
    """
    held: bytes | None = getattr(request.state, "content", None)
    if held is not None:
        return held
    most = get_context(request).limits.body_bytes if most is None else most
    content = bytearray()
    async for chunk in iter_chunks(request):
        content += chunk
        if len(content) > most:
            raise HTTPException(413, f"the body has more than {format_bytes(most)}")
    return bytes(content)


async def iter_chunks(request: Request) -> AsyncIterator[bytes]:
    """The raw body as it arrives. Raises 408 if it stalls, or is slower as a whole than the limits allow."""
    limits = get_context(request).limits
    received = 0
    chunks = request.stream()
    begun = time.monotonic()
    while True:
        allowed = limits.body_total_seconds + received / LEAST_BYTES_PER_SECOND
        left = begun + allowed - time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, min(limits.body_seconds, left))):
                chunk = await anext(chunks)
        except StopAsyncIteration:
            return
        except TimeoutError:
            reason = "stalled for" if left > limits.body_seconds else "is not complete after"
            seconds = limits.body_seconds if left > limits.body_seconds else allowed
            # Closed, because the rest of the body may never come.
            raise HTTPException(
                408, f"the body {reason} {seconds:.3g} seconds", headers={"Connection": "close"}
            ) from None
        except ClientDisconnect:
            raise HTTPException(400, "the client disconnected before its body was complete") from None
        received += len(chunk)
        yield chunk


async def _parse_json(content: bytes) -> Any:
    return await asyncio.to_thread(_read_json, content) if len(content) > LARGE_BYTES else _read_json(content)


async def _parse_yaml(request: Request, content: bytes) -> Any:
    if len(content) > MOST_YAML_BYTES:
        raise HTTPException(413, f"the body has more than {format_bytes(MOST_YAML_BYTES)} of YAML; send it as JSON")
    # One at a time: many at once would occupy the threads that hash passwords.
    turn: asyncio.Semaphore = request.app.state.yaml_turn
    async with turn:
        return await asyncio.to_thread(_read_yaml, content)


def _read_json(content: bytes) -> Any:
    if count_values(content, most=MOST_VALUES) > MOST_VALUES:
        raise refuse(Code.BODY_VALUES, "the body has too many values", allowed=f"at most {MOST_VALUES}")
    try:
        # Decoded here: left to itself, `json` guesses other encodings.
        document = parse_json(content.decode("utf-8-sig"), most_digits=MOST_DIGITS)
        if b"\\u0000" in content:
            _check_texts(document)
    except UnicodeDecodeError:
        raise refuse(Code.BODY_JSON, "the body is not JSON: it is not UTF-8") from None
    except ValueError as error:
        raise refuse(Code.BODY_JSON, f"the body is not JSON: {error}") from None
    return _check_depth(document)


def _check_depth(document: Any) -> Any:
    """Return the document; raises `Refused` if it is nested too deeply for recursive code."""
    if is_deeper(document, MOST_DEPTH + EXTRA_DEPTH):
        raise refuse(Code.TOO_DEEP, f"the body is nested in more than {MOST_DEPTH + EXTRA_DEPTH} levels")
    return document


def _check_texts(document: Any) -> None:
    """Raise `ValueError` for a text that no database takes."""
    if any(map(_UNSTORABLE.search, iter_texts(document))):
        raise ValueError("a text has a zero byte or an unpaired surrogate")


def _read_yaml(content: bytes) -> Any:
    documents = load_documents(content, source="body")
    if len(documents) != 1:
        raise refuse(Code.BODY_YAML, f"the body must be one YAML document, not {len(documents)}")
    document = documents[0].data
    try:
        _check_texts(document)
    except ValueError as error:
        raise refuse(Code.BODY_YAML, f"the body cannot be stored: {error}") from None
    return _check_depth(document)
