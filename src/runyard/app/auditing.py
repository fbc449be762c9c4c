"""Audit entries are written in the unit of work they tell of, so that what happened and who did it commit together."""

from collections.abc import Mapping
from typing import Any

from runyard.app.core import Core
from runyard.app.model import AuditEntry, Entity, Principal
from runyard.app.ports import UnitOfWork


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
    await unit.audit.add(
        AuditEntry(
            at=core.clock.now(),
            actor=who.name,
            action=action,
            project=entity.project if entity else None,
            type=entity.type if entity else None,
            id=entity.id if entity else None,
            result=result,
            address=who.address,
            details=details or {},
        )
    )
