"""Delete the bytes of blobs that no file uses anymore: of deleted and replaced files, and of interrupted uploads."""

import logging
from contextlib import suppress

from runyard.app.blob_store import BlobStore
from runyard.app.ports import Store, Unavailable

BLOBS_AT_ONCE = 200
"""How many blobs are deleted between two transactions."""
MOST_IN_REQUEST = 1000
"""How many blobs a request that deletes files or entities deletes itself; the retention loop deletes the rest."""
MOST_FAILURES = 10
"""After so many failures in a row the file storage counts as down, and the rest is left for later."""

_log = logging.getLogger(__name__)


async def remove_unused(store: Store, blobs: BlobStore, *, most: int | None = None) -> int:
    """Delete unused blobs, at most so many; returns how many. Several processes may do so at once.

    A blob that cannot be deleted is left for the next call. Never call it inside a unit of work.
    """
    count, failures, after = 0, 0, ""
    while failures < MOST_FAILURES and (most is None or count < most):
        limit = BLOBS_AT_ONCE if most is None else min(BLOBS_AT_ONCE, most - count)
        async with store.begin(is_read_only=True) as unit:
            found = await unit.files.list_unused(after=after, limit=limit)
        if not found:
            break
        deleted = []
        for blob in found:
            try:
                await blobs.delete(blob)
            except Unavailable as error:
                _log.warning("an unused blob cannot be deleted: %s", error, extra={"blob": blob})
                failures += 1
                if failures >= MOST_FAILURES:
                    break
            else:
                failures = 0
                deleted.append(blob)
        if deleted:
            async with store.begin() as unit:
                await unit.files.forget_unused(deleted)
                await unit.commit()
        count, after = count + len(deleted), found[-1]
    return count


async def try_remove_unused(store: Store, blobs: BlobStore | None) -> None:
    """Delete unused blobs now, as far as a request may wait for it. Whatever fails is left to the retention loop."""
    if blobs is not None:
        with suppress(Unavailable):
            await remove_unused(store, blobs, most=MOST_IN_REQUEST)
