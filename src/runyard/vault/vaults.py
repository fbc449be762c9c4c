"""The vaults: keys from a file, which can be rotated, or from a text, which is as it is."""

from abc import ABC, abstractmethod
from pathlib import Path

from runyard.app.model import SealedValue
from runyard.vault import envelope_encryption
from runyard.vault.errors import KeysUnusable
from runyard.vault.key_file import KeyFile
from runyard.vault.keyring import Keyring, parse_keys


class _RingVault(ABC):
    """`app.ports.Vault` and `app.entities.secret_rotation.RotatingVault` on a keyring. Thread-safe."""

    @abstractmethod
    def _find_keys(self, *, needed: str | None = None) -> Keyring:
        """The keys as they are now; with `needed`, looked for anew only if that one is not among them."""

    @abstractmethod
    def make_key(self) -> str:
        """Make a new key, which is current from now on; its id. Blocks. Raises `KeysUnusable`."""

    @property
    def current_key_id(self) -> str:
        """The id of the key that seals."""
        return self._find_keys().current_id

    @property
    def old_key_ids(self) -> tuple[str, ...]:
        """The ids of those that only open, oldest first."""
        return self._find_keys().ids[:-1]

    def seal(self, project: str, name: str, version: int, text: str) -> SealedValue:
        """Bound to project, name and version."""
        return envelope_encryption.seal(self._find_keys(), project, name, version, text)

    def open(self, value: SealedValue) -> str:
        """Raises `Tampered` if anything was changed, `UnknownKey` if the key is not at hand."""
        return envelope_encryption.unseal(self._find_keys(needed=value.key_id), value)

    def rewrap(self, value: SealedValue) -> SealedValue:
        """The same value with its data key wrapped by the current key; the value itself is not opened."""
        keys = self._find_keys()
        return value if value.key_id == keys.current_id else envelope_encryption.rewrap(keys, value)


class FileVault(_RingVault):
    """Keys from a file, read again when it has changed: another replica may have rotated them."""

    def __init__(self, path: Path) -> None:
        self._file = KeyFile(path)
        self._file.ensure()
        # One attribute, so that threads never pair the keys of one reading with the stamp of another.
        self._known = self._file.read()

    def make_key(self) -> str:
        """Make a new key, which is current from now on; its id. Blocks. Raises `KeyFileUnusable`."""
        self._file.add_key()
        self._known = self._file.read()
        return self._known[0].current_id

    def _find_keys(self, *, needed: str | None = None) -> Keyring:
        keys, stamp = self._known
        is_enough = needed is not None and keys.has(needed)
        if not is_enough and self._file.read_stamp() != stamp:
            self._known = self._file.read()
        return self._known[0]

    def __repr__(self) -> str:
        return f"FileVault({self._file.path}, {self._known[0]!r})"


class TextVault(_RingVault):
    """Keys from a text, as an environment variable brings it; a new key is added there, by whoever wrote it."""

    def __init__(self, text: str) -> None:
        self._keys = parse_keys(text, source="the keys of the environment")

    def make_key(self) -> str:
        """Raises `KeysUnusable`, which says how it is done."""
        raise KeysUnusable(
            "the keys come from the environment, which the server cannot change: add a new key as the last line there,"
            " start every replica anew, then wrap the values with it (rotate without a new key)"
        )

    def _find_keys(self, *, needed: str | None = None) -> Keyring:  # noqa: ARG002 - inherited
        return self._keys

    def __repr__(self) -> str:
        return f"TextVault({self._keys!r})"
