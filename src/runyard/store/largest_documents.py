"""The size of the largest entity that each list ever had, so that a page is known to fit a budget in bytes.

A page of N entities has at most N times that many bytes, whichever they are. So all pages of a list have the same size,
and clients that go from page to page by number miss nothing. The value never shrinks while the project exists: if the
deletion of a large entity made pages longer, a client between two pages would skip some.
"""

from typing import Any

from sqlalchemy import ColumnElement, Label, Table, Text, func, select, type_coerce

from runyard.app.list_query import LISTED_RUN_BYTES, Query
from runyard.store import tables
from runyard.store.session import Session

SMALL_BYTES = 1 << 12
"""Entities up to this size are not noted: every page of 1000 of them, or of such runs, fits the default budget."""
_largest = tables.largest_documents
LISTED_DOCUMENTS = ("metadata", "spec", "status", "extensions", "warnings")
"""The documents that lists show; `warnings` is a column of runs only."""


def measure_documents(table: Table) -> Label[int]:
    """The size of a row's documents in the database. JSON is stored as ASCII, so a character is a byte."""
    lengths = [func.length(type_coerce(table.c[name], Text)) for name in LISTED_DOCUMENTS if name in table.c]
    total: ColumnElement[int] = lengths[0]
    for length in lengths[1:]:
        total = total + length
    return total.label("document_bytes")


async def note_size(session: Session, entity_type: str, project: str, size: int) -> None:
    """Note the size of an entity that was written, in its unit of work, if it is the largest of its list."""
    if size <= SMALL_BYTES:
        return
    statement = select(_largest.c.bytes).where(_largest.c.type == entity_type, _largest.c.project == project)
    known: int | None = await session.fetch_value(statement)
    if known is not None and known >= size:
        return
    added = session.insert_into(_largest).values(type=entity_type, project=project, bytes=size)
    grown = added.on_conflict_do_update(
        index_elements=["type", "project"],
        set_={"bytes": added.excluded.bytes},
        where=_largest.c.bytes < added.excluded.bytes,
    )
    await session.write(grown)


async def read_largest(session: Session, query: Query) -> int:
    """The most bytes that an entity of the list has, as it is shown there."""
    conditions: list[Any] = [_largest.c.type == query.type]
    if query.project is not None:
        conditions.append(_largest.c.project == query.project)
    known: int | None = await session.fetch_value(select(func.max(_largest.c.bytes)).where(*conditions))
    besides = LISTED_RUN_BYTES if query.type == "run" and query.is_brief else 0
    return max(known or 0, SMALL_BYTES) + besides
