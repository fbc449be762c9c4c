"""The volume loop: creates the claims of new volumes, removes those of deleted ones, and keeps the ledger true.

It wakes up for use cases (`core.signals.volumes`) and at intervals. Every replica may run it: calls to the engine are
idempotent, and every write is decided from the row as it is stored.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from runyard.app.core import Core
from runyard.app.engine import Engine, EngineError, EngineRefusal, VolumeState
from runyard.app.engine_calls import call_engine
from runyard.app.entities import VOLUME_KIND, find_place, get_claim
from runyard.app.event_waits import wait_at_most
from runyard.app.model import Entity
from runyard.app.ports import Unavailable
from runyard.app.projects import PreparedProjects
from runyard.app.volumes import (
    change_volume,
    ensure_claim,
    expire_volumes,
    list_volumes_in_state,
    note_found,
    note_waiting,
    remove_claim,
)
from runyard.domain.reasons import Reason

MOST_FAILURES = 3
"""After so many failures in a row the engine counts as down, and the pass leaves the rest to the next."""
FIRST_RETRY_SECONDS = 1.0
SLOWEST_RETRY_SECONDS = 30.0
"""Backoff while volumes wait for the engine: how soon, and how seldom at last, they are tried again."""
REFRESH_SECONDS = 60.0
"""How often the ledger is compared with what the engine finds, and expired volumes are looked for."""

_WAITS_FOR_OPERATOR = (Reason.PLACE_OTHER, Reason.ENGINE_NONE)
"""Reasons that do not pass by themselves: such volumes are looked at with every refresh only."""

_log = logging.getLogger(__name__)


class VolumeLoop:
    """One replica's loop."""

    def __init__(self, core: Core, engine: Engine | None) -> None:
        self._core = core
        self._engine = engine
        self._prepared = None if engine is None else PreparedProjects(core, engine)
        self._failures_in_a_row = 0

    async def run(self) -> None:
        """Run until cancelled."""
        clock = asyncio.get_running_loop().time
        refreshed_at = -REFRESH_SECONDS
        pause = FIRST_RETRY_SECONDS
        while True:
            self._core.signals.volumes.clear()
            if clock() - refreshed_at >= REFRESH_SECONDS:
                await self.refresh()
                refreshed_at = clock()
            is_waiting = await self.reconcile() > 0
            rest = REFRESH_SECONDS - (clock() - refreshed_at)
            has_news = await wait_at_most(self._core.signals.volumes, min(pause, rest) if is_waiting else rest)
            pause = FIRST_RETRY_SECONDS if has_news or not is_waiting else min(pause * 2, SLOWEST_RETRY_SECONDS)

    async def reconcile(self) -> int:
        """Create and remove claims, one pass; returns how many volumes still wait for the engine."""
        self._failures_in_a_row = 0
        waiting = 0
        for volume in await self._list("DELETING"):
            waiting += not await self._try(volume, partial(remove_claim, self._core, self._engine, volume))
        if self._engine is not None:
            # Claims of runs are created with their runs.
            for volume in await self._list("CREATED", kind=VOLUME_KIND):
                waiting += not await self._try(volume, partial(self._ensure, self._engine, volume))
        return waiting

    async def refresh(self) -> None:
        """Note what the engine finds of all volumes, and when runs ended; delete what has expired."""
        if self._engine is not None:
            await self._compare(self._engine)
        await expire_volumes(self._core)

    async def _ensure(self, engine: Engine, volume: Entity) -> bool:
        try:
            if self._prepared is not None and find_place(volume) in (None, str(engine.place)):
                await self._prepared.ensure(volume.project)
            await ensure_claim(self._core, engine, volume)
        except EngineRefusal:
            _log.warning("the engine refuses a volume", extra={"volume": volume.name, "project": volume.project})
        except EngineError as error:
            if self._prepared is not None:
                self._prepared.note_failure(volume.project, error)
            raise
        return True

    async def _try(self, volume: Entity, act: Callable[[], Awaitable[bool]]) -> bool:
        """Returns whether it is done. A failure of one volume does not end the pass, unless the engine is down."""
        if self._failures_in_a_row >= MOST_FAILURES:
            return False
        try:
            is_done = await act()
        except EngineError as error:
            if error.code not in _WAITS_FOR_OPERATOR:
                self._failures_in_a_row += 1
            await note_waiting(self._core, volume, error)
            return error.code in _WAITS_FOR_OPERATOR
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - a volume that fails for whatever reason must not stop the others
            _log.exception("a volume failed", extra={"volume": volume.name, "project": volume.project})
            return False
        self._failures_in_a_row = 0
        return is_done

    async def _list(self, state: str, *, kind: str | None = None) -> list[Entity]:
        return await list_volumes_in_state(self._core, state, kind=kind)

    async def _compare(self, engine: Engine) -> None:
        """Rows first, then the claims: a claim that is missing from a later list is really gone.

        An engine lists all of its volumes or fails: a failure marks nothing as lost.
        """
        volumes = [*await self._list("READY"), *(one for one in await self._list("ERROR") if "phase" in one.status)]
        try:
            listed = await call_engine(engine.list_volumes())
        except EngineError as error:
            _log.warning("the engine cannot list volumes: %s", error)
            return
        found = {(state.project, state.claim): state for state in listed}
        for volume in volumes:
            if find_place(volume) == str(engine.place):
                state = found.get((volume.project, get_claim(volume))) or _make_lost(volume)
                if note_found(volume, state, at=self._core.clock.now()) is not None:
                    await change_volume(self._core, volume, partial(self._note, state))

    def _note(self, state: VolumeState, stored: Entity) -> Entity | None:
        return None if stored.state == "CREATED" else note_found(stored, state, at=self._core.clock.now())


def _make_lost(volume: Entity) -> VolumeState:
    return VolumeState(
        project=volume.project,
        claim=get_claim(volume),
        volume_id=volume.id,
        phase="lost",
        size=volume.status.get("size"),
        storage_class=volume.status.get("storage_class"),
        message="the claim is gone, and Runyard did not remove it",
    )
