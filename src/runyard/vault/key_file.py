"""The key file: readable by its owner only, and replaced atomically.

It is not part of the database or its backups. A backup is useless without it; losing it loses the values of secrets.
"""

import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runyard.vault.errors import KeyFileUnusable
from runyard.vault.keyring import Keyring, make_key, parse_keys

_MODE = 0o600
_LARGEST_BYTES = 1 << 16
_HEADING = (
    "# Runyard's keys: they open the values of secrets. Keep a copy apart from the database's backups.\n"
    "# One key per line; the last one is current, those before it open what was sealed earlier.\n"
)

Stamp = tuple[int, int, int]


class KeyFile:
    """Reads, creates and changes the file. Its methods block."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def ensure(self) -> None:
        """Create the file with a first key if it is missing. Of two processes one creates it, and both use it."""
        if self.path.exists():
            return
        with self._explain("made"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            draft = self._write_draft(Keyring([make_key()]))
            try:
                # A link appears atomically, unlike a file that is created and then filled.
                os.link(draft, self.path)
            except FileExistsError:
                pass
            finally:
                draft.unlink()
            self._sync_folder()

    def read(self) -> tuple[Keyring, Stamp]:
        """The keys, and a stamp that differs once the file has changed. Raises `KeyFileUnusable`."""
        with self._explain("read"), self.path.open("rb") as file:
            status = os.fstat(file.fileno())
            self._check(status)
            content = file.read(_LARGEST_BYTES + 1)
        if len(content) > _LARGEST_BYTES:
            raise KeyFileUnusable(f"{self.path} is not a key file: it has more than {_LARGEST_BYTES} bytes")
        return parse_keys(content.decode("ascii", "replace"), source=f"the key file {self.path}"), _stamp(status)

    def read_stamp(self) -> Stamp:
        """Only the stamp, without reading the keys."""
        with self._explain("read"):
            return _stamp(self.path.stat())

    def add_key(self) -> Keyring:
        """Append a new key, which becomes current. Once this returns it is on the disk."""
        with self._explain("changed"), self._lock():
            keys = self.read()[0].add(make_key())
            draft = self._write_draft(keys)
            try:
                draft.replace(self.path)
            except OSError:
                draft.unlink(missing_ok=True)
                raise
            self._sync_folder()
            return keys

    def _check(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise KeyFileUnusable(f"the key file {self.path} is not a file")
        if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise KeyFileUnusable(
                f"the key file {self.path} has mode {stat.S_IMODE(status.st_mode):04o}, so others can use it;"
                f" allowed: 0600 or 0400; fix it with `chmod 600 {self.path}`"
            )

    def _write_draft(self, keys: Keyring) -> Path:
        draft = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
        with os.fdopen(descriptor, "wb") as file:
            # The umask may have removed bits from the mode.
            os.fchmod(descriptor, _MODE)
            file.write((_HEADING + keys.to_text()).encode())
            file.flush()
            os.fsync(descriptor)
        return draft

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Keep two processes that add a key from overwriting each other: values may be sealed by either key already."""
        descriptor = os.open(
            self.path.with_name(f"{self.path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _sync_folder(self) -> None:
        descriptor = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    @contextmanager
    def _explain(self, act: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if act == "read" and isinstance(error, FileNotFoundError):
                message = f"the key file {self.path} does not exist: restore it, or name another with --key-file"
                raise KeyFileUnusable(message) from None
            raise KeyFileUnusable(f"the key file {self.path} cannot be {act}: {error.strerror or error}") from error


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_mtime_ns, status.st_size
