"""Bring volumes of the ledger to what is desired: create the claim, note what the engine finds, remove it.

The place is committed before the first call to the engine, and a row goes only after the engine has said that the claim
is gone: no crash leaves a claim that nobody knows. Every function may be repeated.
"""

from collections.abc import Callable
from datetime import datetime

from runyard.app.audit import audit
from runyard.app.core import Core
from runyard.app.engine import Engine, EngineError, EngineRefusal, EngineUnavailable, VolumeState
from runyard.app.engine_calls import call_engine
from runyard.app.entities import change_status, find_place, make_kept_volume
from runyard.app.locks import lock_of_entity, lock_of_project
from runyard.app.model import Entity
from runyard.app.ports import UnitOfWork
from runyard.app.runs import SYSTEM
from runyard.domain.reasons import Reason

NO_ENGINE = EngineUnavailable(
    Reason.ENGINE_NONE, "no engine is configured: the volume waits until the server is started with one"
)

Decide = Callable[[Entity], Entity | None]
"""Decides what to write from the volume as it is stored now; None writes nothing."""


async def ensure_claim(core: Core, engine: Engine, volume: Entity) -> Entity | None:
    """Create the claim of a volume, or find it, and write READY with what the engine says. None: the volume is gone.

    A volume that is deleted meanwhile leaves no claim behind. Raises `EngineUnavailable`; and `EngineRefusal`, after
    writing ERROR.
    """
    place = str(engine.place)
    placed = await change_volume(core, volume, lambda stored: _give_place(stored, place, at=core.clock.now()))
    if placed is None or placed.state == "DELETING":
        return None
    if find_place(placed) != place:
        raise make_other_place(placed, engine)
    kept = make_kept_volume(placed)
    try:
        found = await call_engine(engine.ensure_volume(kept))
    except EngineRefusal as error:
        refusal = error
        await change_volume(core, placed, lambda stored: _refuse(stored, refusal, at=core.clock.now()))
        raise
    stored = await change_volume(core, placed, lambda stored: note_found(stored, found, at=core.clock.now()))
    if stored is None:
        await call_engine(engine.remove_volume(kept))
        return None
    return stored if stored.state != "DELETING" else None


async def remove_claim(core: Core, engine: Engine | None, volume: Entity) -> bool:
    """Remove the claim of a volume that is DELETING, then its row; returns whether both are gone.

    Raises `EngineUnavailable` if the volume is in another place.
    """
    place = find_place(volume)
    if place is not None:
        if engine is None:
            raise NO_ENGINE
        if place != str(engine.place):
            raise make_other_place(volume, engine)
        if not await call_engine(engine.remove_volume(make_kept_volume(volume))):
            waits = EngineUnavailable(Reason.VOLUME_REMOVING, "the claim is being removed; a run may have it mounted")
            await note_waiting(core, volume, waits)
            return False
    async with core.store.begin() as unit:
        await unit.lock_shared(lock_of_project(volume.project))
        stored = await unit.entities.find("volume", volume.id, project=volume.project)
        if stored is not None and stored.state == "DELETING":
            await unit.entities.delete("volume", volume.id, project=volume.project)
            await audit(core, unit, SYSTEM, "volume.removed", stored)
            await unit.commit()
    core.signals.deletions.set()
    return True


async def note_waiting(core: Core, volume: Entity, error: EngineError) -> None:
    """Write why nothing happens to a volume now, if that is news."""
    why = {"reason": error.code, "message": str(error)}
    if not why.items() <= volume.status.items():
        await change_volume(core, volume, lambda stored: change_status(stored, why, at=core.clock.now()))


def note_found(stored: Entity, found: VolumeState, *, at: datetime) -> Entity | None:
    """The volume with what the engine finds; None if that is no news."""
    was_mounted = bool(stored.status.get("mounted_by"))
    is_mounted = bool(found.mounted_by)
    mounted_at = at.isoformat() if was_mounted or is_mounted else stored.status.get("last_mounted_at")
    if was_mounted and is_mounted:
        # Written only when it changes: while it is mounted, the ledger says so.
        mounted_at = stored.status.get("last_mounted_at")
    is_lost = found.phase == "lost"
    values = {
        "phase": found.phase,
        "size": found.size,
        "storage_class": found.storage_class,
        "mounted_by": sorted(found.mounted_by) or None,
        "last_mounted_at": mounted_at,
    }
    state = stored.state
    if state != "DELETING":
        state = "ERROR" if is_lost else "READY"
        values |= {"reason": Reason.VOLUME_LOST if is_lost else None, "message": found.message}
    changed = change_status(stored, values, at=at, state=state)
    return None if (changed.state, changed.status) == (stored.state, stored.status) else changed


async def change_volume(core: Core, volume: Entity, decide: Decide) -> Entity | None:
    """Decide from the volume as it is stored and write it; returns it, or None if it is gone."""
    async with core.store.begin() as unit:
        await unit.lock_shared(lock_of_project(volume.project))
        return await change_stored(unit, volume, decide)


async def change_stored(unit: UnitOfWork, volume: Entity, decide: Decide) -> Entity | None:
    """The same in a unit of work of the caller, which it commits."""
    await unit.lock(lock_of_entity("volume", volume.project, volume.id))
    stored = await unit.entities.find("volume", volume.id, project=volume.project)
    changed = None if stored is None else decide(stored)
    if changed is None:
        return stored
    written = await unit.entities.replace(changed)
    await unit.commit()
    return written


def make_other_place(volume: Entity, engine: Engine) -> EngineUnavailable:
    """Why a volume of another place waits."""
    return EngineUnavailable(
        Reason.PLACE_OTHER,
        f"the volume is at `{find_place(volume)}`, and this server's engine acts at `{engine.place}`: "
        "start the server with the engine of that place",
    )


def _give_place(stored: Entity, place: str, *, at: datetime) -> Entity | None:
    if stored.state == "DELETING" or find_place(stored) is not None:
        return None
    return change_status(stored, {"place": place}, at=at)


def _refuse(stored: Entity, refusal: EngineRefusal, *, at: datetime) -> Entity | None:
    if stored.state == "DELETING":
        return None
    return change_status(stored, {"reason": refusal.code, "message": str(refusal)}, at=at, state="ERROR")
