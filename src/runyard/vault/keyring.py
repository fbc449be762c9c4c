"""The keys that wrap data keys: the last one is current, those before it only open.

As text, one key per line: 32 random bytes in base64 (`openssl rand -base64 32`). Lines that begin with `#` and empty
lines say nothing; commas may stand for ends of lines, as in an environment variable. A key's id comes from the key
itself, so that no id can stand by a wrong key.
"""

import binascii
import secrets
from base64 import b64decode, b64encode
from collections.abc import Sequence
from hashlib import sha256

from runyard.vault.errors import KeysUnusable, UnknownKey

KEY_BYTES = 32
_ID_CHARACTERS = 16
_URL_SAFE = str.maketrans("-_", "+/")


class Keyring:
    """Keys by id. Immutable; its repr shows ids alone."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = {make_key_id(key): key for key in keys}

    @property
    def current_id(self) -> str:
        """The id of the key that seals."""
        return next(reversed(self._keys))

    @property
    def ids(self) -> tuple[str, ...]:
        """All, oldest first."""
        return tuple(self._keys)

    def has(self, key_id: str) -> bool:
        """Whether that key is at hand."""
        return key_id in self._keys

    def get(self, key_id: str) -> bytes:
        """Raises `UnknownKey`, which names those that are known."""
        if key_id not in self._keys:
            known = ", ".join(self._keys)
            raise UnknownKey(f"sealed by the key {key_id!a:.40}, which is not among the keys at hand ({known})")
        return self._keys[key_id]

    def add(self, key: bytes) -> "Keyring":
        """Another ring, in which that key is current."""
        return Keyring([*(known for known in self._keys.values() if known != key), key])

    def to_text(self) -> str:
        """What `parse_keys` reads; the only way by which keys leave the ring."""
        return "".join(f"{b64encode(key).decode()}\n" for key in self._keys.values())

    def __repr__(self) -> str:
        return f"Keyring({', '.join(self._keys)})"


def make_key() -> bytes:
    """Fresh and random."""
    return secrets.token_bytes(KEY_BYTES)


def make_key_id(key: bytes) -> str:
    """Stands for the key in the database; says nothing of it."""
    return sha256(b"runyard key id\0" + key).hexdigest()[:_ID_CHARACTERS]


def parse_keys(text: str, *, source: str) -> Keyring:
    """Raises `KeysUnusable`, which names the line and never shows it."""
    keys = [
        _parse_key(word.strip(), where=f"{source}, line {number}")
        for number, line in enumerate(text.splitlines(), 1)
        if not line.lstrip().startswith("#")
        for word in line.split(",")
        if word.strip()
    ]
    if not keys:
        raise KeysUnusable(f"{source}: there is no key in it; make one with `openssl rand -base64 {KEY_BYTES}`")
    if len({*keys}) < len(keys):
        raise KeysUnusable(f"{source}: the same key stands there twice, so which one is current is not clear")
    return Keyring(keys)


def _parse_key(line: str, *, where: str) -> bytes:
    try:
        key = b64decode(line.translate(_URL_SAFE) + "=" * (-len(line) % 4), validate=True)
    except (binascii.Error, ValueError):
        # Neither the line nor the cause is shown: a cause keeps the text it could not read.
        raise KeysUnusable(f"{where}: not a key; a key is {KEY_BYTES} bytes in base64") from None
    if len(key) != KEY_BYTES:
        raise KeysUnusable(f"{where}: a key of {len(key)} bytes; it must have {KEY_BYTES}, in base64")
    return key
