"""Errors of the vault. Messages never contain a value or a key.

VaultError
├── KeysUnusable         the text of the keys is invalid
│   └── KeyFileUnusable  the key file cannot be read, written or trusted
├── UnknownKey           a value was sealed by a key that is not known
└── Tampered             a sealed value is not the one stored under that project, name and version
"""

from runyard.app.vault import Unopenable


class VaultError(Exception):
    """A sealed value or the keys cannot be used."""


class KeysUnusable(VaultError):
    """The text of the keys is invalid."""


class KeyFileUnusable(KeysUnusable):
    """The key file cannot be read, written or trusted."""


class UnknownKey(VaultError, Unopenable):
    """A value was sealed by a key that is not known."""


class Tampered(VaultError, Unopenable):
    """A sealed value is not the one stored under that project, name and version."""
