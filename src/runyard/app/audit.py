"""Audit entries are written in the unit of work they tell of, so that what happened and who did it commit together."""

from collections.abc import Mapping, Sequence
from typing import Any

from runyard.app.core import Core
from runyard.app.model import AuditEntry, Entity, Principal
from runyard.app.ports import UnitOfWork

MOST_ENTRIES = 1000


async def audit(
    core: Core,
    unit: UnitOfWork,
    who: Principal,
    action: str,
    entity: Entity | None = None,
    *,
    result: str = "done",
    details: Mapping[str, Any] | None = None,
) -> None:
    """Note an act: `run.submit`, `policy.put`. Details never hold values of secrets."""
    of = (entity.type, entity.id) if entity else (None, None)
    project = entity.project if entity else None
    await note_act(core, unit, who, action, of=of, project=project, result=result, details=details)


async def note_act(
    core: Core,
    unit: UnitOfWork,
    who: Principal,
    action: str,
    *,
    of: tuple[str | None, str | None],
    project: str | None = None,
    result: str = "done",
    details: Mapping[str, Any] | None = None,
) -> None:
    """An audit entry about something that is no entity: an account, a token, a share. `of` is its type and id."""
    await unit.audit.add(
        AuditEntry(
            at=core.clock.now(),
            actor=who.name,
            action=action,
            project=project,
            type=of[0],
            id=of[1],
            result=result,
            address=who.address,
            details=details or {},
        )
    )


async def list_audit(
    core: Core,
    *,
    project: str | None = None,
    actor: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> Sequence[tuple[int, AuditEntry]]:
    """Newest first, with their sequence; `before` goes on where the last answer ended."""
    async with core.store.begin(is_read_only=True) as unit:
        return await unit.audit.list_entries(
            project=project, actor=actor, before=before, limit=min(limit, MOST_ENTRIES)
        )
