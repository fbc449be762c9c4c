"""What can go wrong with sealed values and their keys; messages never carry either.

VaultError
├── KeysUnusable         the text of the keys is not what it must be
│   └── KeyFileUnusable  the file of the keys cannot be read, written or trusted
├── UnknownKey           a value was sealed by a key that is not at hand
└── Tampered             a sealed value is not what was stored under that project, name and version
"""

from runyard.app.ports import Unopenable


class VaultError(Exception):
    """Something is wrong with a sealed value or with the keys."""


class KeysUnusable(VaultError):
    """The text of the keys is not what it must be."""


class KeyFileUnusable(KeysUnusable):
    """The file of the keys cannot be read, written or trusted."""


class UnknownKey(VaultError, Unopenable):
    """A value was sealed by a key that is not at hand."""


class Tampered(VaultError, Unopenable):
    """A sealed value is not what was stored under that project, name and version."""
