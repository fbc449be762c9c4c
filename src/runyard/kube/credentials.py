"""Credentials for the apiserver: a fixed identity, or a token file that is re-read."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from runyard.kube.errors import ConfigError
from runyard.kube.tls import ClientCertificate

logger = logging.getLogger(__name__)

TOKEN_FILE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Credential:
    """The credential of one request."""

    authorization: str | None = field(default=None, repr=False)
    certificate: ClientCertificate | None = None


def bearer(token: str, *, certificate: ClientCertificate | None = None) -> Credential:
    """A bearer token; surrounding white space, which editors leave in files, is stripped."""
    token = token.strip()
    # A line break would inject another header.
    if not token or not token.isascii() or not token.isprintable():
        raise ConfigError("the token is empty or has characters that no header can carry")
    return Credential(f"Bearer {token}", certificate)


class Credentials(Protocol):
    """A source of credentials; one per Transport, used from one event loop."""

    async def get(self) -> Credential:
        """The current credential; renewed here when it is about to expire. Cheap."""

    async def renew(self, refused: Credential) -> Credential:
        """The credential to try after a 401 with `refused`; equal to `refused` when there is none newer."""

    async def close(self) -> None:
        """Stop whatever is still running."""


@dataclass(frozen=True, slots=True)
class StaticCredentials:
    """An identity that never changes: token, password, client certificate, or none at all."""

    credential: Credential = Credential()

    async def get(self) -> Credential:
        """Always the same."""
        return self.credential

    async def renew(self, refused: Credential) -> Credential:
        """The same credential: there is none newer."""
        return refused

    async def close(self) -> None:
        """Does nothing: no process runs."""


class TokenFileCredentials:
    """A token file that another program rotates, as the kubelet does in a pod.

    Read again when the file changed, after a minute whatever the file system says of change, and after a 401.
    A file that is missing or empty for a moment does not take away a token that was read before.
    """

    def __init__(
        self,
        path: Path,
        *,
        certificate: ClientCertificate | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._certificate = certificate
        self._clock = clock
        self._current: Credential | None = None
        self._identity: tuple[int, int, int] | None = None
        self._read_at = 0.0

    async def get(self) -> Credential:
        """The token that is in the file now."""
        is_old = self._clock() - self._read_at >= TOKEN_FILE_SECONDS
        return self._read() if self._current is None or is_old or self._has_changed() else self._current

    async def renew(self, refused: Credential) -> Credential:  # noqa: ARG002 - the protocol's
        """The token in the file, re-read regardless of its age."""
        return self._read()

    async def close(self) -> None:
        """Does nothing: no process runs."""

    def _has_changed(self) -> bool:
        return _identity(self._path) != self._identity

    def _read(self) -> Credential:
        identity = _identity(self._path)
        try:
            current = bearer(self._path.read_text(), certificate=self._certificate)
        except (OSError, UnicodeDecodeError, ConfigError) as error:
            if self._current is None:
                raise ConfigError(f"token file {self._path}: {error}") from error
            logger.warning("token file %s cannot be read, keeping the last token: %s", self._path, error)
            return self._current
        self._current, self._identity, self._read_at = current, identity, self._clock()
        return current


def _identity(path: Path) -> tuple[int, int, int] | None:
    """A fingerprint that changes when a file is rewritten or, as in a pod, swapped behind a symbolic link."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
