"""Reading what was done, by whom. Nothing here writes."""

from collections.abc import Sequence

from runyard.app.core import Core
from runyard.app.model import AuditEntry

MOST_ENTRIES = 1000


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
