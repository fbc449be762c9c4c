"""The registry loop: tells the engine of changed or deleted registry credentials of a project.

It wakes up for use cases of this process (`Signals.notify_registries`). Changes of a process that died, or that the
engine could not take, are in the projects' status: all of them are looked through at start and at intervals.
"""

import asyncio
import logging
from functools import partial

from runyard.app.core import Core
from runyard.app.engine import Engine, EngineError, EngineRefusal, ImagePulling
from runyard.app.engine_calls import call_engine
from runyard.app.entities import (
    clear_registry_change,
    find_registry_change,
    list_changed_registries,
    read_project_registries,
)
from runyard.app.event_waits import wait_at_most
from runyard.app.ports import Unavailable

FIRST_RETRY_SECONDS = 1.0
SLOWEST_RETRY_SECONDS = 30.0
"""Backoff while the engine cannot be told."""
SCAN_SECONDS = 300.0
"""How often all projects are looked through."""

_log = logging.getLogger(__name__)


class RegistryLoop:
    """One replica's loop; several may run."""

    def __init__(self, core: Core, engine: Engine, pulling: ImagePulling) -> None:
        """`pulling` is the same engine."""
        self._core = core
        self._pulling = pulling
        self._place = str(engine.place)

    async def run(self) -> None:
        """Run until cancelled."""
        clock = asyncio.get_running_loop().time
        waiting: set[str] = set()
        scanned_at = -SCAN_SECONDS
        pause = FIRST_RETRY_SECONDS
        while True:
            waiting |= self._core.signals.take_registries()
            if clock() - scanned_at >= SCAN_SECONDS:
                waiting |= set(await list_changed_registries(self._core, self._place))
                scanned_at = clock()
            waiting = {project for project in sorted(waiting) if not await self.tell(project)}
            rest = SCAN_SECONDS - (clock() - scanned_at)
            has_news = await wait_at_most(self._core.signals.registries, min(pause, rest) if waiting else rest)
            pause = FIRST_RETRY_SECONDS if has_news or not waiting else min(pause * 2, SLOWEST_RETRY_SECONDS)

    async def tell(self, project: str) -> bool:
        """Tell the engine of the last change, if it was not told yet; returns whether nothing is left to do."""
        try:
            token = await find_registry_change(self._core, project, self._place)
            if token is None:
                return True
            read = partial(read_project_registries, self._core, project)
            try:
                await call_engine(self._pulling.ensure_registries(project, read))
            except EngineRefusal as refusal:  # the next run says so too
                _log.warning("the engine refuses the registry credentials of a project: %s", refusal)
            return await clear_registry_change(self._core, project, place=self._place, token=token)
        except Unavailable:
            raise
        except EngineError as error:
            _log.warning("changed registry credentials are not at the engine's place yet: %s", error)
        except Exception:  # noqa: BLE001 - a project that fails for whatever reason must not stop the others
            _log.exception("changed registry credentials failed", extra={"project": project})
        return False
