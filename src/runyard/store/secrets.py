"""Encrypted values of secrets, without their keys."""

from collections.abc import Sequence
from dataclasses import fields

from sqlalchemy import bindparam, delete, select, update

from runyard.app.model import SealedValue
from runyard.app.ports import Stale
from runyard.store import tables
from runyard.store.session import Session

_columns = tables.secrets.c
_SELECTED = tuple(_columns[field.name] for field in fields(SealedValue))
_FIND = (
    select(*_SELECTED)
    .where(_columns.project == bindparam("in_project"), _columns.name == bindparam("called"))
    .order_by(_columns.version.desc())
    .limit(1)
)


class SqlSecrets:
    """`app.ports.Secrets`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def put(self, value: SealedValue) -> None:
        """Store it as the newest version. Raises `Stale` if that version or a newer one exists."""
        await self._session.lock(f"secret:{value.project}:{value.name}")
        newest = await self.find(value.project, value.name)
        if newest is not None and newest.version >= value.version:
            raise Stale(f"secret {value.name} of project {value.project} has version {newest.version} already")
        row = {field.name: getattr(value, field.name) for field in fields(SealedValue)}
        await self._session.write(self._session.insert_into(tables.secrets).values(**row))

    async def find(self, project: str, name: str) -> SealedValue | None:
        """The newest version."""
        row = await self._session.fetch_one(_FIND, {"in_project": project, "called": name})
        return None if row is None else SealedValue(**row)

    async def delete(self, project: str, name: str) -> None:
        """All versions."""
        await self._session.write(delete(tables.secrets).where(_columns.project == project, _columns.name == name))

    async def list_sealed_by(self, key_id: str, *, limit: int) -> Sequence[SealedValue]:
        """Values whose data key is wrapped by that key, for key rotation."""
        rows = await self._session.fetch_all(
            select(*_SELECTED)
            .where(_columns.key_id == key_id)
            .order_by(_columns.project, _columns.name, _columns.version)
            .limit(limit)
        )
        return [SealedValue(**row) for row in rows]

    async def rewrap(self, value: SealedValue) -> None:
        """Replace the same version by one that is wrapped by another key. Raises `Stale` if it is gone."""
        replaced = await self._session.write(
            update(tables.secrets)
            .where(_columns.project == value.project, _columns.name == value.name, _columns.version == value.version)
            .values(key_id=value.key_id, wrapped_key=value.wrapped_key, ciphertext=value.ciphertext)
        )
        if not replaced:
            raise Stale(f"version {value.version} of secret {value.name} of project {value.project} is gone")
