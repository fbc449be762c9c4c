"""Two vaults: one with keys from a file, which can be rotated, and one with keys from a fixed text."""

from abc import ABC, abstractmethod
from pathlib import Path

from runyard.app.model import SealedValue
from runyard.vault import envelope_encryption
from runyard.vault.errors import KeysUnusable
from runyard.vault.key_file import KeyFile
from runyard.vault.keyring import Keyring, parse_keys


def open_vault(path: Path | None, *, text: str | None = None, is_created: bool = True) -> "FileVault | TextVault":
    """Open a vault with the keys in `text` if given, else with those in the file.

    A missing file is created, unless `is_created` is false. Raises `KeysUnusable`; the message never shows a key.
    """
    if text is not None:
        return TextVault(text)
    if path is None:
        raise KeysUnusable("there are no keys to seal secrets with: give a key file, or keys by the environment")
    return FileVault(path, is_created=is_created)


class _RingVault(ABC):
    """`app.ports.RotatingVault` on a keyring. Thread-safe."""

    @abstractmethod
    def _find_keys(self, *, needed: str | None = None) -> Keyring:
        """Return the current keys. With `needed`, reads them again only if that key is not known."""

    @abstractmethod
    def make_key(self) -> str:
        """Create a key and make it current; returns its id. Blocks. Raises `KeysUnusable`."""

    @property
    def current_key_id(self) -> str:
        """The id of the key that seals."""
        return self._find_keys().current_id

    @property
    def old_key_ids(self) -> tuple[str, ...]:
        """The ids of the keys that only open, oldest first."""
        return self._find_keys().ids[:-1]

    def seal(self, project: str, name: str, version: int, text: str) -> SealedValue:
        """Encrypt the text, bound to project, name and version."""
        return envelope_encryption.seal(self._find_keys(), project, name, version, text)

    def open(self, value: SealedValue) -> str:
        """Decrypt. Raises `Tampered` if anything was changed, `UnknownKey` if the key is not known."""
        return envelope_encryption.unseal(self._find_keys(needed=value.key_id), value)

    def rewrap(self, value: SealedValue) -> SealedValue:
        """Wrap the data key with the current key; the value itself is not decrypted."""
        keys = self._find_keys()
        return value if value.key_id == keys.current_id else envelope_encryption.rewrap(keys, value)


class FileVault(_RingVault):
    """Keys from a file. Reads it again when it has changed: another replica may have rotated the keys."""

    def __init__(self, path: Path, *, is_created: bool = True) -> None:
        self._file = KeyFile(path)
        if is_created:
            self._file.ensure()
        # One attribute, so that no thread pairs the keys of one read with the stamp of another.
        self._known = self._file.read()

    def make_key(self) -> str:
        """Create a key and make it current; returns its id. Blocks. Raises `KeyFileUnusable`."""
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
    """Keys from a text, such as an environment variable. The operator adds new keys there."""

    def __init__(self, text: str) -> None:
        self._keys = parse_keys(text, source="the keys of the environment")

    def make_key(self) -> str:
        """Raises `KeysUnusable`, which says how to add a key."""
        raise KeysUnusable(
            "the keys come from the environment, which the server cannot change: add a new key as the last line there,"
            " restart every replica, then run `runyard keys rewrap`"
        )

    def _find_keys(self, *, needed: str | None = None) -> Keyring:  # noqa: ARG002 - inherited
        return self._keys

    def __repr__(self) -> str:
        return f"TextVault({self._keys!r})"
