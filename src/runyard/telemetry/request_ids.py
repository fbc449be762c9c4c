"""An id per request: the client's own if it is harmless, else one of ours. Every log line of the request carries it."""

import re
import secrets
from collections.abc import Iterable

from structlog.contextvars import get_contextvars

HEADER = b"x-request-id"
NAME = "request_id"
_CLEAN = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def choose_request_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The one that was sent, if it is short and clean and the only one; else a new one."""
    sent = [value for name, value in headers if name.lower() == HEADER]
    if len(sent) == 1 and _CLEAN.fullmatch(sent[0]):
        return sent[0].decode()
    return secrets.token_hex(8)


def find_request_id() -> str | None:
    """That of the request in which we are."""
    found = get_contextvars().get(NAME)
    return None if found is None else str(found)
