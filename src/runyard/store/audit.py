"""The audit log: rows are only added and read. Retention deletes old ones."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, Text, delete, func, insert, select, type_coerce

from runyard.app.model import EVERY_ENTRY, AuditEntry, AuditFilter
from runyard.store import tables
from runyard.store.columns import LARGEST
from runyard.store.session import MANY_ROWS, Session

_columns = tables.audit.c
_FIELDS = tuple(field.name for field in fields(AuditEntry))
# Inline: nobody asks for the sequence number of the new row.
_ADD = insert(tables.audit).inline()


class SqlAudit:
    """`app.ports.Audit`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def add(self, entry: AuditEntry) -> None:
        """Add an entry in the unit of work of the act itself."""
        await self._session.write(_ADD, _make_row(entry))

    async def add_many(self, entries: Sequence[AuditEntry]) -> None:
        """The same for several, in their order."""
        await self._session.write_all(_ADD, map(_make_row, entries))

    async def list_entries(
        self, chosen: AuditFilter = EVERY_ENTRY, *, limit: int = 100
    ) -> Sequence[tuple[int, AuditEntry]]:
        """Entries with their sequence numbers, newest first."""
        statement = _choose(select(tables.audit), chosen, limit=limit)
        is_long = limit > MANY_ROWS or _passes_over(chosen)
        rows = await self._session.fetch_all(statement, is_long=is_long)
        return [(row["sequence"], AuditEntry(**{name: row[name] for name in _FIELDS})) for row in rows]

    async def list_sizes(self, chosen: AuditFilter = EVERY_ENTRY, *, limit: int = 100) -> Sequence[int]:
        """The bytes of their details. JSON is stored as ASCII, so a character is a byte."""
        size = func.length(type_coerce(_columns.details, Text)).label("size")
        statement = _choose(select(size), chosen, limit=limit)
        return [row["size"] for row in await self._session.fetch_all(statement, is_long=_passes_over(chosen))]

    async def delete_before(self, written_before: datetime, *, limit: int) -> int:
        """Delete entries that are older, at most `limit` of them, oldest first; returns how many."""
        old = select(_columns.sequence).where(_columns.at < written_before).order_by(_columns.at).limit(limit)
        return await self._session.write(delete(tables.audit).where(_columns.sequence.in_(old)))


def _choose(statement: Select[Any], chosen: AuditFilter, *, limit: int) -> Select[Any]:
    return statement.where(*_iter_conditions(chosen)).order_by(_columns.sequence.desc()).limit(limit)


def _iter_conditions(chosen: AuditFilter) -> Iterator[ColumnElement[bool]]:
    if chosen.project is not None:
        yield _columns.project == chosen.project
    if chosen.actor is not None:
        yield _columns.actor == chosen.actor
    if chosen.action is not None:
        yield _columns.action == chosen.action
    if chosen.since is not None:
        yield _columns.at >= chosen.since
    if chosen.until is not None:
        yield _columns.at <= chosen.until
    if chosen.before is not None:
        yield _columns.sequence < min(chosen.before, LARGEST)


def _passes_over(chosen: AuditFilter) -> bool:
    """Whether any number of rows may be read for one that is chosen: no index has these columns with the sequence."""
    return (chosen.action, chosen.since, chosen.until) != (None, None, None)


def _make_row(entry: AuditEntry) -> dict[str, Any]:
    row = {name: getattr(entry, name) for name in _FIELDS}
    row["details"] = dict(entry.details)
    return row
