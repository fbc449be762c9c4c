"""Bodies of requests: bounded in size and depth, JSON or YAML, one clear error for what is neither."""

import json
import math
from typing import Any

from fastapi import Request
from starlette.exceptions import HTTPException

from runyard.api.web import get_web
from runyard.app.documents import MOST_DEPTH, is_deeper
from runyard.spec.documents import load_documents
from runyard.spec.reading import refuse

JSON = ("application/json",)
YAML = ("application/x-yaml", "application/yaml", "text/yaml")
SLACK = 4
"""Levels around the deepest part of a document that its own reader bounds."""


async def read_body(request: Request) -> Any:
    """The document in the body; raises `Refused`, or 413 and 415."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type not in (*JSON, *YAML):
        raise HTTPException(415, f"the body must be {JSON[0]} or {YAML[0]}, not {content_type or 'without a type'}")
    content = await read_bytes(request)
    document = _read_json(content) if content_type in JSON else _read_yaml(content)
    if is_deeper(document, MOST_DEPTH + SLACK):
        raise refuse("too.deep", f"the body is nested in more than {MOST_DEPTH + SLACK} levels")
    return document


async def read_bytes(request: Request) -> bytes:
    """The body, which is no longer than it may be, whatever its header says."""
    most = get_web(request).limits.body_bytes
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > most:
            raise HTTPException(413, f"the body has more than {most} bytes")
    return bytes(content)


def _read_json(content: bytes) -> Any:
    try:
        document = json.loads(
            content, parse_constant=_refuse_constant, parse_float=_read_float, object_pairs_hook=_read_pairs
        )
        # Only escapes bring these: UTF-8 cannot hold halves of characters, and JSON texts no raw zero bytes.
        if b"\\u" in content:
            _check_texts(document)
    except (ValueError, RecursionError) as error:
        where = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        words = error.msg if isinstance(error, json.JSONDecodeError) else _explain(error)
        raise refuse("body.json", f"the body is not JSON: {words}{where}") from None
    return document


def _check_texts(document: Any) -> None:
    """No database takes zero bytes in text, and nothing carries halves of characters on."""
    layer = [document]
    while layer:
        texts = [item for item in layer if isinstance(item, str)]
        texts += [key for item in layer if isinstance(item, dict) for key in item]
        if any("\0" in text or any("\ud800" <= character <= "\udfff" for character in text) for text in texts):
            raise ValueError("a text has a zero byte or half a character")
        layer = [
            inner
            for item in layer
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]


def _read_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def _explain(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number in JSON")


def _read_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice[:80]!r} is there twice")
    return document


def _read_yaml(content: bytes) -> Any:
    documents = load_documents(content, source="body")
    if len(documents) != 1:
        raise refuse("body.yaml", f"the body must be one YAML document, not {len(documents)}")
    return documents[0].data
