"""Request ids (`X-Request-ID`), which every log line of a request carries. A client's own id is kept if it is safe."""

import re
import secrets
from collections.abc import Iterable

from structlog.contextvars import get_contextvars

HEADER = b"x-request-id"
NAME = "request_id"
_CLEAN = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def choose_request_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the id from the header if there is exactly one and it is short and printable; else a new id."""
    sent = [value for name, value in headers if name.lower() == HEADER]
    if len(sent) == 1 and _CLEAN.fullmatch(sent[0]):
        return sent[0].decode()
    return secrets.token_hex(8)


def find_request_id() -> str | None:
    """Return the id of the current request, or None outside a request."""
    found = get_contextvars().get(NAME)
    return None if found is None else str(found)
