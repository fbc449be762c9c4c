"""A connection with its transaction, as a unit of work holds it: how work gets to the database, and who waits."""

from collections.abc import Callable
from typing import Literal, Protocol, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")
Work = Callable[[Connection], T]
WorkKind = Literal["read", "write", "long"]


class Transaction(Protocol):
    """Begins its transaction with the first work; without any, nothing was ever connected."""

    async def run(self, work: Work[T], work_kind: WorkKind) -> T:
        """Do it inside the transaction. `long`: a write that may take its time."""

    async def commit(self) -> None:
        """Keep everything."""

    async def close(self) -> None:
        """Undo what was not committed, and give the connection back."""


class TransactionFactory(Protocol):
    """Where links come from."""

    @property
    def is_sqlite(self) -> bool:
        """Whether one writer at a time is the rule anyway."""

    def make(self) -> Transaction:
        """A new one, not connected yet."""

    async def dispose(self) -> None:
        """End the connections."""
