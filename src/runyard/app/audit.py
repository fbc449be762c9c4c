"""The audit log. An entry is written in the unit of work of the act, so that both are committed together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from runyard.app.core import Core
from runyard.app.model import EVERY_ENTRY, AuditEntry, AuditFilter, Entity, Principal
from runyard.app.ports import UnitOfWork

MOST_ENTRIES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """Some entries with their sequence numbers, newest first."""

    entries: Sequence[tuple[int, AuditEntry]]
    next: int | None
    """The sequence number before which the next page begins; None on the last one."""


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
    """Add an entry for an act on an entity, such as `run.submit`. Details never contain values of secrets."""
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
    """Add an entry for an act on something else: an account, a token, a share. `of` is its type and id."""
    await unit.audit.add(_make_entry(core, who, action, of=of, project=project, result=result, details=details))


async def audit_many(
    core: Core, unit: UnitOfWork, who: Principal, acts: Sequence[tuple[str, Entity, Mapping[str, Any]]]
) -> None:
    """Add an entry for each act: action, entity and details."""
    await unit.audit.add_many(
        [
            _make_entry(
                core,
                who,
                action,
                of=(entity.type, entity.id),
                project=entity.project,
                result="done",
                details=details,
            )
            for action, entity, details in acts
        ]
    )


async def list_audit(core: Core, chosen: AuditFilter = EVERY_ENTRY, *, limit: int = 100, most_bytes: int) -> AuditPage:
    """A page of entries, newest first; `before` of the filter continues where the last page ended."""
    limit = min(limit, MOST_ENTRIES)
    async with core.store.begin(is_read_only=True) as unit:
        sizes = await unit.audit.list_sizes(chosen, limit=limit)
        fitting = max(1, sum(total <= most_bytes for total in accumulate(sizes)))
        entries = await unit.audit.list_entries(chosen, limit=fitting)
    is_last = len(sizes) < limit and fitting >= len(sizes)
    return AuditPage(entries=entries, next=None if is_last or not entries else entries[-1][0])


def _make_entry(
    core: Core,
    who: Principal,
    action: str,
    *,
    of: tuple[str | None, str | None],
    project: str | None,
    result: str,
    details: Mapping[str, Any] | None,
) -> AuditEntry:
    return AuditEntry(
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
