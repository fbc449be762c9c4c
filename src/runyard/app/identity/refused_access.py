"""Audit of denied requests, rate-limited so that a client in a loop cannot fill it."""

from datetime import datetime, timedelta

from runyard.app.audit import note_act
from runyard.app.core import Core
from runyard.app.lru_map import LruMap
from runyard.app.model import Principal
from runyard.domain.access import Permission

AGAIN = timedelta(minutes=1)
MOST_KNOWN = 10_000
"""How many recent denials are remembered, to aggregate repetitions."""

MOST_PROJECT_CHARACTERS = 100
"""How much of the name of another project an entry for a run's token keeps."""
MOST_WHY_CHARACTERS = 500
"""How much of the reason an entry keeps."""
ELSEWHERE = "*"
"""Stands for all other projects."""

Key = tuple[str, str | None, str, str | None]


class RefusalAudit:
    """Audits the same denial once a minute, with the number of repetitions. One per process.

    For a run's token all projects but its own are the same: it may name as many as it likes that do not exist. Users
    are denied only in projects that exist.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._known: LruMap[Key, tuple[datetime, int]] = LruMap(most=MOST_KNOWN)

    async def note(self, who: Principal, permission: Permission, *, project: str | None, act: str, why: str) -> None:
        """Record that a principal lacked a permission."""
        now = self._core.clock.now()
        is_elsewhere = who.run_id is not None and project != who.project
        key = (who.name, who.run_id, act, ELSEWHERE if is_elsewhere else project)
        at, unnoted = self._known.find(key) or (None, 0)
        if at is not None and now - at < AGAIN:
            self._known.put(key, (at, unnoted + 1))
            return
        # Before the write, so that concurrent requests see it.
        self._known.put(key, (now, 0))
        details = {"act": act, "why": why[:MOST_WHY_CHARACTERS], **({"more": unnoted} if unnoted else {})}
        of = ("run", who.run_id) if who.run_id is not None else (None, None)
        if is_elsewhere:
            # The entry belongs to the run's own project.
            details["project"] = (project or "")[:MOST_PROJECT_CHARACTERS]
            project = who.project
        async with self._core.store.begin() as unit:
            await note_act(
                self._core,
                unit,
                who,
                f"access.{permission.value}",
                of=of,
                project=project,
                result="refused",
                details=details,
            )
            await unit.commit()
