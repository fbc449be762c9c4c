"""Follows a run: yields its new transitions, whichever replica wrote them. Each poll reads only transitions."""

from collections.abc import Sequence

from runyard.app.core import Core
from runyard.app.model import Run, Transition
from runyard.app.runs.run_queries import get_run
from runyard.domain.lifecycle import GONE, is_final

POLL_SECONDS = 1.0
"""Writes of other replicas send no signal here."""


class RunFollower:
    """The position of one follower. Made by `follow_run`."""

    def __init__(self, core: Core, run: Run, transitions: Sequence[Transition]) -> None:
        self._core = core
        self._last = transitions[-1]
        self.run = run
        self.transitions = transitions
        """The transitions at the beginning."""
        self.is_gone = False

    @property
    def has_ended(self) -> bool:
        """Whether no more transitions will come: the run is final, or gone."""
        return self.is_gone or is_final(self._last.state)

    @property
    def is_deleting(self) -> bool:
        """Whether the run is being deleted."""
        return self._last.state in GONE

    async def wait(self, *, seconds: float = POLL_SECONDS) -> None:
        """Wait until the run may have changed, at most that long."""
        await self._core.signals.wait(self.run.uid, seconds=seconds)

    async def read_new(self) -> Sequence[Transition]:
        """The transitions since the last call."""
        async with self._core.store.begin(is_read_only=True) as unit:
            # The last known one is read too: if it is gone, the run is gone.
            known = await unit.runs.list_transitions(self.run.uid, after=self._last.sequence - 1)
        self.is_gone = not known
        found = [one for one in known if one.sequence > self._last.sequence]
        self._last = found[-1] if found else self._last
        return found


async def follow_run(core: Core, project: str, run_id: str) -> RunFollower:
    """Follow a run; raises `Missing`."""
    run, transitions = await get_run(core, project, run_id)
    return RunFollower(core, run, transitions)
