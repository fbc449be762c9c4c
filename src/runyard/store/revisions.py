"""Revisions of profiles and policies."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Literal

from sqlalchemy import func, insert, select

from runyard.app.model import Json, Revision
from runyard.store import tables
from runyard.store.columns import LARGEST
from runyard.store.queue import read_clock
from runyard.store.session import Session

_columns = tables.revisions.c
_SELECTED = tuple(_columns[field.name] for field in fields(Revision))
_newest = (
    select(_columns.kind, _columns.name, func.max(_columns.revision).label("revision"))
    .group_by(_columns.kind, _columns.name)
    .subquery()
)
_LIST_CURRENT = (
    select(*_SELECTED)
    .join(
        _newest,
        (_newest.c.kind == _columns.kind)
        & (_newest.c.name == _columns.name)
        & (_newest.c.revision == _columns.revision),
    )
    .where(_columns.document.is_not(None))
    .order_by(_columns.kind, _columns.name)
)
_COUNT = select(func.count().label("count")).select_from(tables.revisions)


class SqlRevisions:
    """`app.ports.Revisions`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def put(self, kind: Literal["profile", "policy"], name: str, document: Json | None, *, user: str) -> Revision:
        """Add a revision. A document of None is a deletion."""
        await self._session.lock(f"revision:{kind}:{name}")
        newest = await self.find(kind, name)
        revision = Revision(
            kind=kind,
            name=name,
            revision=1 if newest is None else newest.revision + 1,
            document=document,
            user=user,
            at=await read_clock(self._session),
        )
        row = {field.name: getattr(revision, field.name) for field in fields(Revision)}
        await self._session.write(insert(tables.revisions).values(**row), documents=document)
        return revision

    async def find(
        self, kind: Literal["profile", "policy"], name: str, *, revision: int | None = None
    ) -> Revision | None:
        """The newest revision, or the given one."""
        statement = select(*_SELECTED).where(_columns.kind == kind, _columns.name == name)
        if revision is not None:
            statement = statement.where(_columns.revision == min(revision, LARGEST))
        row = await self._session.fetch_one(statement.order_by(_columns.revision.desc()).limit(1))
        return None if row is None else Revision(**row)

    async def list_current(self, *, kind: Literal["profile", "policy"] | None = None) -> Sequence[Revision]:
        """The newest revision of each name, without deleted ones, by name."""
        statement = _LIST_CURRENT if kind is None else _LIST_CURRENT.where(_columns.kind == kind)
        rows = await self._session.fetch_all(statement)
        return [Revision(**row) for row in rows]

    async def count(self) -> int:
        """How many revisions there are; every change and deletion adds one."""
        return int(await self._session.fetch_value(_COUNT))

    async def list_history(self, kind: Literal["profile", "policy"], name: str) -> Sequence[Revision]:
        """All revisions, newest first."""
        rows = await self._session.fetch_all(
            select(*_SELECTED).where(_columns.kind == kind, _columns.name == name).order_by(_columns.revision.desc())
        )
        return [Revision(**row) for row in rows]
