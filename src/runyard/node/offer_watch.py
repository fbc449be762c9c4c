"""An offer from a file, read again when it changes; a mistake in it keeps the last good one."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

from runyard.node.offer import Offer
from runyard.node.offer_file import MOST_BYTES, load_offer
from runyard.spec.problems import Refused

POLL_SECONDS = 5.0
"""How often the file is read: a mounted ConfigMap changes by a link, which no file event announces."""

_log = logging.getLogger(__name__)


def read_offer_file(path: Path) -> Offer:
    """Read an offer. Raises OSError, and `Refused` with every mistake in it."""
    return load_offer(_read(path), source=str(path))


async def watch_offer_file(path: Path) -> AsyncIterator[Offer]:
    """The offer, once it can be read, and again whenever the file's content changes."""
    content: bytes | None = None
    while True:
        try:
            found = await asyncio.to_thread(_read, path)
            if found != content:
                content = found
                yield load_offer(content, source=str(path))
        except (OSError, Refused) as error:
            _log.error("the offer cannot be read, the last one holds: %s", error, extra={"file": path.name})
        await asyncio.sleep(POLL_SECONDS)


def _read(path: Path) -> bytes:
    """One byte more than is allowed at most: the reader then refuses it."""
    with path.open("rb") as file:
        return file.read(MOST_BYTES + 1)
