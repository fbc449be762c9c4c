"""The vault: encrypts the values of secrets, so that the database never sees them.

Implements `app.ports.RotatingVault`. Start in `vaults.py` (`open_vault`). `envelope_encryption.py` is the cryptography
(AES-256-GCM, a data key per value), `keyring.py` the keys that wrap data keys, `key_file.py` their file. No exception,
repr or log of this package holds a value or a key. May import `app.model` and `app.ports`; owns cryptography.
"""

from runyard.vault.errors import KeyFileUnusable, KeysUnusable, Tampered, UnknownKey, VaultError
from runyard.vault.vaults import FileVault, TextVault, open_vault

__all__ = [
    "FileVault",
    "KeyFileUnusable",
    "KeysUnusable",
    "Tampered",
    "TextVault",
    "UnknownKey",
    "VaultError",
    "open_vault",
]
