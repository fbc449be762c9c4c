"""Digests of unfinished blobs, as far as this process has written them, so that no blob is read again for it."""

import hashlib
from typing import Protocol, Self

from runyard.app.lru_map import LruMap

MOST_DIGESTS = 1000
"""Unfinished blobs whose digests are kept; others are read again when they are finished."""


class Digest(Protocol):
    """SHA-256 of what came so far."""

    def update(self, content: bytes, /) -> None:
        """Go on."""

    def hexdigest(self) -> str:
        """Of all bytes so far."""

    def copy(self) -> Self:
        """Another one that goes on from here."""


class RunningDigests:
    """By blob: how many bytes, and their digest. Whatever does not fit is forgotten, never guessed."""

    def __init__(self) -> None:
        self._known: LruMap[str, tuple[int, Digest]] = LruMap(most=MOST_DIGESTS)

    def resume(self, blob: str, *, offset: int) -> Digest | None:
        """The digest of that many bytes, to be continued; None if it is not known. Forgets it until `keep`."""
        known = self._known.find(blob)
        self._known.discard(blob)
        if not offset:
            return hashlib.sha256()
        return known[1] if known is not None and known[0] == offset else None

    def keep(self, blob: str, *, offset: int, digest: Digest | None) -> None:
        """Remember the digest of that many bytes."""
        if digest is not None:
            self._known.put(blob, (offset, digest))

    def find(self, blob: str, *, size: int) -> str | None:
        """The digest of the whole blob, if it is known."""
        known = self._known.find(blob)
        return known[1].hexdigest() if known is not None and known[0] == size else None

    def discard(self, blob: str) -> None:
        """Forget it."""
        self._known.discard(blob)
