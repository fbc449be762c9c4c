"""The vault: seals the values of secrets, so that the database never sees them. Implements `app.ports.Vault`.

Start in `opening.py` (`open_vault`). `sealing.py` is the cryptography (AES-256-GCM, a data key per value), `keyring.py`
the keys that wrap data keys, `key_file.py` their file, `vaults.py` puts them together. No exception, repr or log of
this package holds a value or a key. May import `app.model` and `app.entities.secret_rotation`; owns cryptography.
"""

from runyard.vault.errors import KeyFileUnusable, KeysUnusable, Tampered, UnknownKey, VaultError
from runyard.vault.startup import open_vault
from runyard.vault.vaults import FileVault, TextVault

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
