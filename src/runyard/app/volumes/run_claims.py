"""Claims of a run that outlive it: into the ledger and into existence before the run is released."""

from collections.abc import Sequence

from runyard.app.core import Core
from runyard.app.engine import Engine, EngineRefusal
from runyard.app.entities import CLAIM_KIND, MOST_VOLUMES
from runyard.app.errors import Conflict
from runyard.app.list_query import Query
from runyard.app.model import Entity, Json, Run
from runyard.app.ports import UnitOfWork
from runyard.app.runs import RunVolume, list_run_volumes, lock_run_volumes
from runyard.app.volumes.volume_lifecycle import ensure_claim
from runyard.domain.lifecycle import State, is_final
from runyard.domain.reasons import Reason


async def ensure_run_volumes(core: Core, engine: Engine, run: Run) -> None:
    """Make the volumes of a run exist that outlive it; nothing for a run without such. Idempotent.

    Raises `EngineUnavailable`, `EngineRefusal`, and `Conflict` if the run was stopped or deleted meanwhile. Call it
    before every release.
    """
    volumes = list_run_volumes(run)
    if not volumes:
        return
    for row in await _ensure_rows(core, engine, run, volumes):
        if await ensure_claim(core, engine, row) is None:
            raise Conflict(f"volume {row.name} of run {run.id} is being deleted")


async def _ensure_rows(core: Core, engine: Engine, run: Run, volumes: Sequence[RunVolume]) -> list[Entity]:
    async with core.store.begin() as unit:
        await lock_run_volumes(unit, run)
        stored = await unit.runs.find_by_uid(run.uid)
        if stored is None or stored.desired != "run" or is_final(State(stored.state)):
            raise Conflict(f"run {run.id} was stopped or deleted meanwhile")
        known = [await unit.entities.find("volume", one.id, project=run.project) for one in volumes]
        missing = [one for one, row in zip(volumes, known, strict=True) if row is None]
        await _check_number(unit, run.project, len(missing))
        added = {one.id: _make_row(core, engine, run, one) for one in missing}
        for row in added.values():
            await unit.entities.add(row)
        await unit.commit()
    return [row or added[one.id] for one, row in zip(volumes, known, strict=True)]


async def _check_number(unit: UnitOfWork, project: str, more: int) -> None:
    if not more:
        return
    number = (await unit.entities.find_page(Query(type="volume", project=project, size=1))).total
    if number + more > MOST_VOLUMES:
        message = f"project {project} has {number} volumes, and the limit is {MOST_VOLUMES}: delete some"
        raise EngineRefusal(Reason.VOLUME_TOO_MANY, message)


def _make_row(core: Core, engine: Engine, run: Run, one: RunVolume) -> Entity:
    now = core.clock.now()
    size, lifetime = one.volume.size, one.volume.lifetime
    spec: Json = {
        "size": None if size is None else size.text,
        "storage_class": one.volume.storage_class,
        "lifetime": lifetime,
    }
    return Entity(
        type="volume",
        project=run.project,
        kind=CLAIM_KIND,
        name=one.claim,
        id=one.id,
        user=run.user,
        created_at=now,
        updated_at=now,
        updated_by="system",
        metadata={"project": run.project, "name": one.claim},
        spec={key: value for key, value in spec.items() if value is not None},
        status={"place": str(engine.place), "run": {"id": run.id, "uid": run.uid, "volume": one.volume.name}},
    )
