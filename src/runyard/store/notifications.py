"""Tells other processes which runs have changed: LISTEN and NOTIFY of PostgreSQL.

A notification is sent in the transaction of the change, so the server delivers it with the commit or not at all. It is
only a hint: a lost one costs time, never truth. A connection pooler in transaction mode loses them all.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import ColumnElement, Connection, Text, bindparam, func, literal

from runyard.store.connections import make_postgresql_engine
from runyard.store.driver_errors import translate_errors
from runyard.store.errors import StoreError
from runyard.store.urls import PostgresUrl

CHANNEL = "runyard_runs"
LARGEST_PAYLOAD_BYTES = 7_900
"""How long a notification may be. PostgreSQL allows less than 8,000 bytes."""
MOST_UNREAD_UIDS = 10_000
"""How many uids are kept for a reader that does not keep up; beyond that they are dropped, and the reader is told."""
PROBE_SECONDS = 20.0
"""How often the listening connection is tested: a dead peer sends nothing, and neither does an idle one."""
ANSWER_SECONDS = 10.0
RETRY_SECONDS = 1.0

_log = logging.getLogger(__name__)


def send_notifications(connection: Connection, origin: str, run_uids: Iterable[str]) -> None:
    """Notify all listeners but the origin of those runs, once this transaction is committed."""
    for payload in make_payloads(origin, run_uids):
        connection.exec_driver_sql("SELECT pg_notify($1, $2)", (CHANNEL, payload))


def notify_row() -> ColumnElement[Any]:
    """A notification as a part of RETURNING, which saves a statement. Binds `notification`: one payload."""
    return func.pg_notify(literal(CHANNEL, Text()), bindparam("notification", type_=Text())).label("notified")


def make_payloads(origin: str, run_uids: Iterable[str]) -> Iterator[str]:
    """JSON lists of the origin and uids, as many as fit in one notification. A uid has at most 600 bytes."""
    start = f'["{origin}"'
    payload = start
    for run_uid in sorted(run_uids):
        item = f",{json.dumps(run_uid)}"
        if len(payload) + len(item) >= LARGEST_PAYLOAD_BYTES:
            yield f"{payload}]"
            payload = start
        payload += item
    if payload != start:
        yield f"{payload}]"


class Listener:
    """A connection of its own that listens, and is made anew when it is lost."""

    def __init__(self, url: PostgresUrl, *, origin: str) -> None:
        self._url = url
        self._origin = origin

    async def listen(self) -> AsyncIterator[Sequence[str]]:
        """Batches of uids that others changed. An empty batch says that some may have been missed: it comes first,
        after every loss of the connection, and when the reader did not keep up. Never ends by itself.
        """
        while True:
            try:
                async with self._connect() as inbox:
                    yield ()
                    while True:
                        yield await inbox.read()
            except StoreError as error:
                _log.warning("notifications of the database are interrupted: %s", error)
            await asyncio.sleep(RETRY_SECONDS)

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator["_Inbox"]:
        engine = make_postgresql_engine(self._url, size=1)
        try:
            with translate_errors(self._url.shown):
                async with engine.connect() as connection:
                    raw = await connection.get_raw_connection()
                    inbox = _Inbox(raw.driver_connection, origin=self._origin)
                    await inbox.open()
                    yield inbox
        finally:
            # The connection may be dead; nobody waits for its farewell.
            await engine.dispose()


class _Inbox:
    """What arrived and was not read yet."""

    def __init__(self, driver: Any, *, origin: str) -> None:
        self._driver = driver
        self._origin = origin
        self._uids: set[str] = set()
        self._is_incomplete = False
        self._has_news = asyncio.Event()

    async def open(self) -> None:
        """Start to listen."""
        self._driver.add_termination_listener(self._note_end)
        await self._ask(self._driver.add_listener(CHANNEL, self._note))

    async def read(self) -> Sequence[str]:
        """Wait for uids. Raises `OSError` if the connection is lost."""
        while True:
            try:
                async with asyncio.timeout(PROBE_SECONDS):
                    await self._has_news.wait()
            except TimeoutError:
                await self._ask(self._driver.execute("SELECT 1", timeout=ANSWER_SECONDS))
                continue
            if self._driver.is_closed():
                raise ConnectionError("the listening connection was lost")
            self._has_news.clear()
            uids, is_incomplete = sorted(self._uids), self._is_incomplete
            self._uids.clear()
            self._is_incomplete = False
            return () if is_incomplete else uids

    async def _ask(self, answer: Awaitable[object]) -> None:
        try:
            await answer
        except Exception as error:
            raise ConnectionError(f"the listening connection does not answer: {type(error).__name__}") from error

    def _note(self, _connection: object, _process: int, _channel: str, payload: str) -> None:
        origin, *run_uids = json.loads(payload)
        if origin == self._origin:
            return
        self._uids.update(run_uids)
        if len(self._uids) > MOST_UNREAD_UIDS:
            self._uids.clear()
            self._is_incomplete = True
        self._has_news.set()

    def _note_end(self, _connection: object) -> None:
        self._has_news.set()
