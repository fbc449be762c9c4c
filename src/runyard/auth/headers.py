"""Strict parser of the Authorization header: one scheme, one credential, nothing else."""

import binascii
import re
from base64 import b64decode
from dataclasses import dataclass, field

from runyard.app.errors import Unauthenticated

MOST_CHARACTERS = 16_384

_HEADER = re.compile(r"(?P<scheme>[A-Za-z]+) +(?P<credential>[!-+\--~]+) *")
_NEEDED = "credentials are needed: `Authorization: Bearer` with a token, or `Basic` with name and password"


@dataclass(frozen=True, slots=True)
class Bearer:
    """A token."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Basic:
    """Name and password."""

    name: str
    password: str = field(repr=False)


def parse_header(header: str | None) -> Bearer | Basic:
    """Parse the header. Raises `Unauthenticated`; the message never contains a part of the header."""
    if not header:
        raise Unauthenticated(_NEEDED)
    match = _HEADER.fullmatch(header) if len(header) <= MOST_CHARACTERS else None
    if match is None:
        raise Unauthenticated(f"the Authorization header cannot be read; {_NEEDED}")
    scheme = match["scheme"].lower()
    if scheme == "bearer":
        return Bearer(match["credential"])
    if scheme == "basic":
        return _parse_basic(match["credential"])
    raise Unauthenticated(f"the Authorization header has an unsupported scheme; {_NEEDED}")


def _parse_basic(credential: str) -> Basic:
    try:
        content = b64decode(credential, validate=True)
    except (binascii.Error, ValueError):
        raise Unauthenticated("the Basic credentials are not base64") from None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        # Python's requests sends non-ASCII letters in Latin-1.
        text = content.decode("latin-1")
    name, colon, password = text.partition(":")
    if not colon or not name:
        raise Unauthenticated("the Basic credentials are not `name:password`")
    return Basic(name, password)
