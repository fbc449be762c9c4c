"""A new key for sealed values, and the old values wrapped with it. Can be broken off and done again at any point."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from runyard.app.audit import note_act
from runyard.app.core import Core
from runyard.app.identity import authorize
from runyard.app.model import Principal, SealedValue
from runyard.app.ports import RotatingVault, Stale, UnitOfWork, Unopenable
from runyard.domain.access import Permission

BATCH = 100


@dataclass(frozen=True, slots=True)
class Rotation:
    """What was done. `failed` names what could not be wrapped anew, as project, name and version."""

    key_id: str
    rewrapped: int
    failed: tuple[tuple[str, str, int], ...] = ()


async def rotate_keys(core: Core, who: Principal, vault: RotatingVault) -> Rotation:
    """Make a new key, then wrap every value with it."""
    async with core.store.begin() as unit:
        await authorize(unit, who, Permission.ADMINISTER)
        old = vault.current_key_id
        # Written down before it is done: the key is made outside the database, and a crash must not hide it.
        await note_act(core, unit, who, "keys.rotate", of=("key", None), details={"old": old})
        await unit.commit()
    await asyncio.to_thread(vault.make_key)
    return await rewrap_values(core, who, vault)


async def rewrap_values(core: Core, who: Principal, vault: RotatingVault) -> Rotation:
    """Wrap what older keys wrapped with the current one, in batches; also ends a rotation that was broken off."""
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
            # One that was tampered with must not keep the others under an old key.
            failed.add(_name(value))
            continue
        with contextlib.suppress(Stale):  # deleted in the meantime
            await unit.secrets.rewrap(wrapped)
            count += 1
    return count, failed


def _name(value: SealedValue) -> tuple[str, str, int]:
    return value.project, value.name, value.version
