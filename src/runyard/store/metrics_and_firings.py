"""Metrics of entities and runs, and used occasions of triggers."""

from collections.abc import Mapping

from sqlalchemy import Text, func, select, type_coerce

from runyard.store import tables
from runyard.store.session import Session

_metrics, _firings = tables.metrics.c, tables.firings.c


class SqlMetrics:
    """`app.ports.Metrics`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def put(
        self, entity_type: str, entity_id: str, name: str, value: float | list[float], *, project: str
    ) -> None:
        """Create or replace."""
        named = {"type": entity_type, "project": project, "id": entity_id, "name": name}
        added = self._session.insert_into(tables.metrics).values(**named, value=value)
        replaced = added.on_conflict_do_update(
            index_elements=["type", "project", "id", "name"], set_={"value": added.excluded.value}
        )
        await self._session.write(replaced, documents=value)

    async def measure(self, entity_type: str, entity_id: str, *, project: str) -> tuple[int, int]:
        """How many metrics an entity or run has, and their size in bytes."""
        size = func.coalesce(func.sum(func.length(type_coerce(_metrics.value, Text))), 0)
        row = await self._session.fetch_one(
            select(func.count().label("number"), size.label("size")).where(
                _metrics.type == entity_type, _metrics.project == project, _metrics.id == entity_id
            )
        )
        return (0, 0) if row is None else (row["number"], int(row["size"]))

    async def list_values(self, entity_type: str, entity_id: str, *, project: str) -> Mapping[str, float | list[float]]:
        """All metrics of an entity or run, by name."""
        rows = await self._session.fetch_all(
            select(_metrics.name, _metrics.value)
            .where(_metrics.type == entity_type, _metrics.project == project, _metrics.id == entity_id)
            .order_by(_metrics.name),
            is_long=True,  # a series has many numbers to parse
        )
        return {row["name"]: row["value"] for row in rows}


class SqlFirings:
    """`app.ports.Firings`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def use(self, trigger_id: str, occasion: str, *, project: str) -> bool:
        """Returns whether this caller is the first. A second one waits until the first has committed or rolled back."""
        rows = await self._session.write_returning(
            self._session.insert_into(tables.firings)
            .values(project=project, trigger_id=trigger_id, occasion=occasion)
            .on_conflict_do_nothing()
            .returning(_firings.sequence)
        )
        return bool(rows)

    async def is_used(self, trigger_id: str, occasion: str, *, project: str) -> bool:
        """Whether an occasion was used."""
        is_wanted = _firings.project == project, _firings.trigger_id == trigger_id, _firings.occasion == occasion
        return await self._session.fetch_value(select(_firings.sequence).where(*is_wanted)) is not None

    async def find_last(self, trigger_id: str, *, project: str) -> str | None:
        """The occasion that was used last."""
        occasion: str | None = await self._session.fetch_value(
            select(_firings.occasion)
            .where(_firings.project == project, _firings.trigger_id == trigger_id)
            .order_by(_firings.sequence.desc())
            .limit(1)
        )
        return occasion

    async def count(self, trigger_id: str, *, project: str) -> int:
        """How many occasions were used."""
        is_its = _firings.project == project, _firings.trigger_id == trigger_id
        number: int = await self._session.fetch_value(select(func.count(_firings.sequence)).where(*is_its))
        return number
