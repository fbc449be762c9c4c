"""Key rotation: create a key and wrap all values of secrets with it. Can be interrupted and repeated at any point."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from runyard.app.audit import note_act
from runyard.app.core import Core
from runyard.app.identity import authorize
from runyard.app.model import Principal, SealedValue
from runyard.app.ports import Stale, UnitOfWork
from runyard.app.vault import RotatingVault, Unopenable
from runyard.domain.access import Permission

BATCH = 100


@dataclass(frozen=True, slots=True)
class Rotation:
    """The result. `failed` lists the values that could not be opened, by project, name and version."""

    key_id: str
    rewrapped: int
    failed: tuple[tuple[str, str, int], ...] = ()


async def rotate_keys(core: Core, who: Principal, vault: RotatingVault) -> Rotation:
    """Create a key, then wrap every value with it."""
    async with core.store.begin() as unit:
        await authorize(unit, who, Permission.ADMINISTER)
        old = vault.current_key_id
        # The audit entry comes first: the key is not in the database, and a crash must not hide that it exists.
        await note_act(core, unit, who, "keys.rotate", of=("key", None), details={"old": old})
        await unit.commit()
    await asyncio.to_thread(vault.make_key)
    return await rewrap_values(core, who, vault)


async def rewrap_values(core: Core, who: Principal, vault: RotatingVault) -> Rotation:
    """Wrap all values of older keys with the current key, in batches. Also completes an interrupted rotation."""
    async with core.store.begin(is_read_only=True) as unit:
        await authorize(unit, who, Permission.ADMINISTER)
    done, failed = 0, set[tuple[str, str, int]]()
    for key_id in vault.old_key_ids:
        while True:
            async with core.store.begin() as unit:
                values = await unit.secrets.list_sealed_by(key_id, limit=BATCH + len(failed))
                fresh = [value for value in values if _name(value) not in failed]
                if not fresh:
                    break
                count, bad = await _rewrap_batch(unit, vault, fresh)
                failed |= bad
                done += count
                details = {"key": vault.current_key_id, "count": count, "failed": sorted(map(list, bad))}
                result = "done" if not bad else "partly"
                await note_act(core, unit, who, "keys.rewrap", of=("key", key_id), result=result, details=details)
                await unit.commit()
    return Rotation(vault.current_key_id, done, tuple(sorted(failed)))


async def _rewrap_batch(
    unit: UnitOfWork, vault: RotatingVault, values: Sequence[SealedValue]
) -> tuple[int, set[tuple[str, str, int]]]:
    count, failed = 0, set[tuple[str, str, int]]()
    for value in values:
        try:
            wrapped = vault.rewrap(value)
        except Unopenable:
            # One damaged value must not keep the others under an old key.
            failed.add(_name(value))
            continue
        with contextlib.suppress(Stale):  # deleted meanwhile
            await unit.secrets.rewrap(wrapped)
            count += 1
    return count, failed


def _name(value: SealedValue) -> tuple[str, str, int]:
    return value.project, value.name, value.version
