"""The interface of a transaction, and of the factory that creates one."""

from collections.abc import Callable
from typing import Literal, Protocol, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")
Work = Callable[[Connection], T]
WorkKind = Literal["read", "write", "long"]


class Transaction(Protocol):
    """A connection with a transaction. Connects and begins with the first work."""

    async def run(self, work: Work[T], work_kind: WorkKind) -> T:
        """Run it inside the transaction. `long`: a write that may take long."""

    async def commit(self, *, meanwhile: Callable[[], None] | None = None) -> None:
        """Commit. `meanwhile` is called on the event loop once the commit has begun."""

    async def close(self) -> None:
        """Roll back what was not committed, and return the connection."""


class TransactionFactory(Protocol):
    """Creates transactions."""

    @property
    def is_sqlite(self) -> bool:
        """Whether the database has a single writer."""

    def make(self, *, is_urgent: bool = False) -> Transaction:
        """A new transaction, not connected yet. One that is urgent goes before others that wait for a connection."""

    async def dispose(self) -> None:
        """Close the connections."""
