"""The places that runs belong to, and the replicas that serve them."""

from sqlalchemy import case, func, select

from runyard.app.ports import PlaceUse
from runyard.store import tables
from runyard.store.clock import DatabaseNow
from runyard.store.session import Session

_runs, _replicas = tables.runs.c, tables.replicas.c


async def list_places(session: Session) -> list[PlaceUse]:
    """`app.ports.Runs.list_places`. Reads every run once; for people, not for loops."""
    counted = await session.fetch_all(
        select(
            _runs.place,
            func.count().label("runs"),
            func.sum(case((_runs.settled_at.is_(None), 1), else_=0)).label("unsettled"),
        )
        .where(_runs.place.is_not(None))
        .group_by(_runs.place)
    )
    served = await session.fetch_all(
        select(_replicas.place, func.count().label("replicas"))
        .where(_replicas.place.is_not(None), _replicas.until > DatabaseNow())
        .group_by(_replicas.place)
    )
    runs = {row["place"]: (row["runs"], int(row["unsettled"])) for row in counted}
    replicas = {row["place"]: row["replicas"] for row in served}
    return [
        PlaceUse(place=place, runs=number, unsettled=unsettled, replicas=replicas.get(place, 0))
        for place in sorted(runs.keys() | replicas.keys())
        for number, unsettled in [runs.get(place, (0, 0))]
    ]


async def list_placed(session: Session, place: str, *, after: str, limit: int) -> list[str]:
    """`app.ports.Runs.list_placed`."""
    rows = await session.fetch_all(
        select(_runs.uid).where(_runs.place == place, _runs.uid > after).order_by(_runs.uid).limit(limit)
    )
    return [row["uid"] for row in rows]
