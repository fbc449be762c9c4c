"""From settings to a vault."""

from pathlib import Path

from runyard.vault.errors import KeysUnusable
from runyard.vault.vaults import FileVault, TextVault


def open_vault(path: Path | None, *, text: str | None = None) -> FileVault | TextVault:
    """A vault with the keys of the text if there is one, else of the file, which is made if it is not there.

    Raises `KeysUnusable` with one sentence that says what is wrong and never shows a key.
    """
    if text is not None:
        return TextVault(text)
    if path is None:
        raise KeysUnusable("there are no keys to seal secrets with: give a key file, or keys by the environment")
    return FileVault(path)
