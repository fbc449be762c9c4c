"""The keys that wrap data keys. The last one is current and seals; the others only open.

Text format: one key per line, 32 random bytes in base64 (`openssl rand -base64 32`). Empty lines and lines that begin
with `#` are ignored. Commas separate keys too, for environment variables. A key's id is derived from the key, so that
an id cannot belong to a wrong key.
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
    """Keys by id. Immutable; its repr shows only ids."""

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
        """Whether that key is known."""
        return key_id in self._keys

    def get(self, key_id: str) -> bytes:
        """Raises `UnknownKey`, which names the known keys."""
        if key_id not in self._keys:
            known = ", ".join(self._keys)
            shown = key_id[:_ID_CHARACTERS].encode("unicode_escape").decode()
            raise UnknownKey(f"sealed by key {shown}, which is not among the known keys ({known})")
        return self._keys[key_id]

    def add(self, key: bytes) -> "Keyring":
        """A new ring in which that key is current."""
        return Keyring([*(known for known in self._keys.values() if known != key), key])

    def to_text(self) -> str:
        """The text that `parse_keys` reads. The only way to get keys out of the ring."""
        return "".join(f"{b64encode(key).decode()}\n" for key in self._keys.values())

    def __repr__(self) -> str:
        return f"Keyring({', '.join(self._keys)})"


def make_key() -> bytes:
    """A new random key."""
    return secrets.token_bytes(KEY_BYTES)


def make_key_id(key: bytes) -> str:
    """Identifies the key in the database without revealing it."""
    return sha256(b"runyard key id\0" + key).hexdigest()[:_ID_CHARACTERS]


def parse_keys(text: str, *, source: str) -> Keyring:
    """Read keys. Raises `KeysUnusable`, which names the line but never shows it."""
    keys = [
        _parse_key(word.strip(), where=f"{source}, line {number}")
        for number, line in enumerate(text.splitlines(), 1)
        if not line.lstrip().startswith("#")
        for word in line.split(",")
        if word.strip()
    ]
    if not keys:
        raise KeysUnusable(f"{source}: contains no key; make one with `openssl rand -base64 {KEY_BYTES}`")
    if len({*keys}) < len(keys):
        raise KeysUnusable(f"{source}: contains the same key twice, so it is not clear which one is current")
    return Keyring(keys)


def _parse_key(line: str, *, where: str) -> bytes:
    try:
        key = b64decode(line.translate(_URL_SAFE) + "=" * (-len(line) % 4), validate=True)
    except (binascii.Error, ValueError):
        # Without the line and without the cause: the cause keeps the text that it could not read.
        raise KeysUnusable(f"{where}: not a key; allowed: {KEY_BYTES} bytes in base64") from None
    if len(key) != KEY_BYTES:
        raise KeysUnusable(f"{where}: the key has {len(key)} bytes; allowed: {KEY_BYTES} bytes in base64")
    return key
