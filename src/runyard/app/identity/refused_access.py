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

Key = tuple[str, str | None, str, str | None]


class RefusalAudit:
    """Audits the same denial once a minute, with the number of repetitions. One per process."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._known: LruMap[Key, tuple[datetime, int]] = LruMap(most=MOST_KNOWN)

    async def note(self, who: Principal, permission: Permission, *, project: str | None, act: str, why: str) -> None:
        """Record that a principal lacked a permission."""
        now = self._core.clock.now()
        key = (who.name, who.run_id, act, project)
        at, unnoted = self._known.find(key) or (None, 0)
        if at is not None and now - at < AGAIN:
            self._known.put(key, (at, unnoted + 1))
            return
        # Before the write, so that concurrent requests see it.
        self._known.put(key, (now, 0))
        details = {"act": act, "why": why, **({"more": unnoted} if unnoted else {})}
        of = ("run", who.run_id) if who.run_id is not None else (None, None)
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
