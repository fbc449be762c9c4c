"""From a URL to a store that is ready."""

from runyard import store
from runyard.store.connections import make_transaction_factory
from runyard.store.lockfile import take_file
from runyard.store.schema import read_schema
from runyard.store.sql_store import SqlStore
from runyard.store.urls import DatabaseUrl, SqliteUrl, parse_url


async def open_store(url: str, *, is_upgrading: bool = False) -> SqlStore:
    """A store for `sqlite:///path` or `postgresql://…`. An empty database gets its tables; an old one is refused.

    With `is_upgrading` an old one is brought to this release's tables first. Raises a `StoreError` that says what to
    do: `WrongUrl`, `StoreLocked`, `StoreUnavailable`, `OldSchema`, `FutureSchema`, `ForeignSchema`.
    """
    place = parse_url(url)
    lock = take_file(place.path) if isinstance(place, SqliteUrl) else None
    try:
        await _ensure_schema(place, is_upgrading=is_upgrading)
        writer, reader = make_transaction_factory(place)
    except BaseException:
        if lock is not None:
            lock.release()
        raise
    return SqlStore(writer=writer, reader=reader, shown_url=place.shown, lock=lock)


async def _ensure_schema(url: DatabaseUrl, *, is_upgrading: bool) -> None:
    status = await read_schema(url)
    if status.state == "empty" or (is_upgrading and status.state == "old"):
        await store.migrate(url)
    else:
        status.check_usable()
