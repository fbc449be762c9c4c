"""The processes that share the database, each with a heartbeat on the database's clock."""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import Double, bindparam, delete, select

from runyard.store import tables
from runyard.store.clock import DatabaseNow, DatabaseTimeIn
from runyard.store.session import Session

_columns = tables.replicas.c


class SqlReplicas:
    """`app.ports.Replicas`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def beat(self, owner: str, place: str | None, lasting: timedelta) -> Sequence[str]:
        """Note that the owner lives; returns the live owners of that place, sorted. Deletes the dead."""
        until = DatabaseTimeIn(bindparam("lasting_seconds", type_=Double()))
        added = self._session.insert_into(tables.replicas).values(owner=owner, place=place, until=until)
        await self._session.write(
            added.on_conflict_do_update(index_elements=["owner"], set_={"place": place, "until": until}),
            {"lasting_seconds": lasting.total_seconds()},
        )
        rows = await self._session.fetch_all(
            select(_columns.owner, _columns.place, (_columns.until > DatabaseNow()).label("is_alive"))
        )
        if not all(row["is_alive"] for row in rows):
            # Several replicas may bury the same ones; none waits for another.
            dead = select(_columns.owner).where(_columns.until <= DatabaseNow()).with_for_update(skip_locked=True)
            await self._session.write(delete(tables.replicas).where(_columns.owner.in_(dead)))
        return sorted(row["owner"] for row in rows if row["is_alive"] and row["place"] == place)

    async def bury_others(self, owner: str) -> None:
        """Forget everybody but the owner. Idempotent."""
        await self._session.write(delete(tables.replicas).where(_columns.owner != owner))

    async def leave(self, owner: str) -> None:
        """Forget the owner: its share goes to the others at once. Idempotent."""
        await self._session.write(delete(tables.replicas).where(_columns.owner == owner))
