"""Claims that outlive their runs: since when their run has ended, and when they expire.

A claim whose run was never released is empty, and goes. One that is in use is kept until nobody uses it anymore.
"""

from datetime import datetime

from runyard.app.audit import audit
from runyard.app.core import Core
from runyard.app.entities import CLAIM_KIND, begin_volume_deletion, change_status, find_owner_uid
from runyard.app.list_query import Query
from runyard.app.locks import lock_of_project
from runyard.app.model import Entity
from runyard.app.runs import SYSTEM, RunEnd, make_expiry, read_end
from runyard.app.volumes.volume_lifecycle import change_volume
from runyard.app.volumes.volume_users import find_users
from runyard.domain.reasons import Reason

PAGE_SIZE = 200


async def list_volumes_in_state(core: Core, state: str, *, kind: str | None = None) -> list[Entity]:
    """The volumes of all projects in a state, oldest first."""
    listed: list[Entity] = []
    async with core.store.begin(is_read_only=True) as unit:
        while True:
            query = Query(
                type="volume",
                state=state,
                kind=kind,
                sort=(("created", "asc"),),
                page=len(listed) // PAGE_SIZE,
                size=PAGE_SIZE,
            )
            content = (await unit.entities.find_page(query)).content
            listed += content
            if len(content) < PAGE_SIZE:
                return listed


async def expire_volumes(core: Core) -> None:
    """Note which runs have ended, and begin to delete the claims that have expired."""
    owned: list[Entity] = []
    for state in ("CREATED", "READY", "ERROR"):
        owned += await list_volumes_in_state(core, state, kind=CLAIM_KIND)
    for start in range(0, len(owned), PAGE_SIZE):
        batch = owned[start : start + PAGE_SIZE]
        uids = [uid for volume in batch if (uid := find_owner_uid(volume)) is not None]
        async with core.store.begin(is_read_only=True) as unit:
            histories = await unit.runs.list_histories(uids)
        for volume in batch:
            history = histories.get(find_owner_uid(volume) or "")
            await _settle_volume(core, volume, None if history is None else read_end(history))


async def _settle_volume(core: Core, volume: Entity, end: RunEnd | None) -> None:
    """`end` is None if the run's row is gone: `end_run_volumes` has noted its end, unless its spec was unreadable."""
    now = core.clock.now()
    ended_at = _read_time(volume, "ended_at") or now if end is None else end.ended_at
    if end is not None and ended_at is not None and not end.was_released:
        await _begin_deletion(core, volume, reason=None)
        return
    expiry = make_expiry(volume.spec.get("lifetime"), ended_at=ended_at)
    known = {name: volume.status.get(name) for name in expiry}
    if expiry != known:
        await change_volume(core, volume, lambda stored: change_status(stored, expiry, at=now))
    expires_at = expiry["expires_at"]
    if expires_at is not None and datetime.fromisoformat(expires_at) <= now:
        await _begin_deletion(core, volume, reason=Reason.VOLUME_EXPIRED)


async def _begin_deletion(core: Core, volume: Entity, *, reason: str | None) -> None:
    async with core.store.begin() as unit:
        await unit.lock(lock_of_project(volume.project))
        stored = await unit.entities.find("volume", volume.id, project=volume.project)
        if stored is None or stored.status.get("mounted_by") or await find_users(unit, stored):
            return
        await begin_volume_deletion(unit, stored, at=core.clock.now(), reason=reason)
        await audit(core, unit, SYSTEM, "volume.expire" if reason else "volume.unused", stored)
        await unit.commit()
    core.signals.volumes.set()


def _read_time(volume: Entity, name: str) -> datetime | None:
    text = volume.status.get(name)
    return None if text is None else datetime.fromisoformat(text)
