"""The port of the vault, which encrypts the values of secrets. `runyard.vault` implements it."""

from collections.abc import Sequence
from typing import Protocol

from runyard.app.model import SealedValue


class Unopenable(Exception):
    """A sealed value cannot be decrypted: it was changed, or its key is not known. Vaults raise subclasses."""


class Vault(Protocol):
    """Encrypts the values of secrets, so that the store never sees them."""

    def seal(self, project: str, name: str, version: int, text: str) -> SealedValue:
        """Encrypt a value, bound to project, name and version."""

    def open(self, value: SealedValue) -> str:
        """Decrypt. Raises `Unopenable` if anything was changed or the key is not known."""


class RotatingVault(Vault, Protocol):
    """A vault with several keys. One is current and seals; the older ones only open."""

    @property
    def current_key_id(self) -> str:
        """The key that seals."""

    @property
    def old_key_ids(self) -> Sequence[str]:
        """The keys that only open."""

    def make_key(self) -> str:
        """Create a key and make it current; returns its id. Blocks."""

    def rewrap(self, value: SealedValue) -> SealedValue:
        """Wrap the value's data key with the current key. Raises `Unopenable`."""
