"""Follows a run: yields its new transitions, whichever replica wrote them.

It waits for `Signals`, which the store feeds with the writes of other replicas too. Each look reads only transitions,
and the run again when there are new ones.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from runyard.app.core import Core, Subscription
from runyard.app.model import Run, Transition
from runyard.app.runs.run_queries import MOST_TRANSITIONS, get_run
from runyard.domain.lifecycle import GONE, is_final

FALLBACK_SECONDS = 15.0
"""How often a run is read although nothing was signalled, in case a signal was lost."""


class RunFollower:
    """The position of one follower. Made by `follow_run`."""

    def __init__(self, core: Core, run: Run, transitions: Sequence[Transition]) -> None:
        self._core = core
        self._last = transitions[-1]
        self._subscription: Subscription | None = None
        self._read_at = time.monotonic()
        self.run = run
        self.transitions = transitions
        """The newest transitions at the beginning."""
        self.is_gone = False

    @property
    def has_ended(self) -> bool:
        """Whether no more transitions will come: the run is final, or gone."""
        return self.is_gone or is_final(self._last.state)

    @property
    def is_deleting(self) -> bool:
        """Whether the run is being deleted."""
        return self._last.state in GONE

    @property
    def is_log_complete(self) -> bool:
        """Whether nothing will be added to the log. A run that is at no engine's place has nobody who would."""
        if not self.has_ended:
            return False
        return self.is_gone or self.is_deleting or self.run.is_log_complete or self.run.place is None

    @contextmanager
    def listen(self) -> Iterator[None]:
        """Notice all changes until the end of the block."""
        with self._core.signals.subscribe(self.run.uid) as self._subscription:
            yield

    async def wait(self, *, seconds: float | None = None) -> None:
        """Wait until the run or its log may have changed, at most that long or `FALLBACK_SECONDS`.

        Only while it listens.
        """
        if self._subscription is None:
            raise RuntimeError("wait() needs listen()")
        await self._subscription.wait(seconds=min(FALLBACK_SECONDS, seconds or FALLBACK_SECONDS))

    @property
    def may_have_changed(self) -> bool:
        """Whether the run itself may have changed since it was read."""
        has_news = self._subscription is None or self._subscription.has_run_changed
        return has_news or time.monotonic() - self._read_at >= FALLBACK_SECONDS

    async def read_known(self, *, after: int) -> Sequence[Transition]:
        """A page of the transitions with a greater sequence that there were at the beginning, oldest first."""
        if after + 1 >= self.transitions[0].sequence:
            return [one for one in self.transitions if one.sequence > after]
        async with self._core.store.begin(is_read_only=True) as unit:
            page = await unit.runs.list_transitions(self.run.uid, after=after, limit=MOST_TRANSITIONS)
        return [one for one in page if one.sequence <= self.transitions[-1].sequence]

    async def read_new(self) -> Sequence[Transition]:
        """The transitions since the last call."""
        if self._subscription is not None:
            self._subscription.has_run_changed = False
        self._read_at = time.monotonic()
        async with self._core.store.begin(is_read_only=True) as unit:
            # The last known one is read too: if it is gone, the run is gone.
            known = await unit.runs.list_transitions(self.run.uid, after=self._last.sequence - 1)
            found = [one for one in known if one.sequence > self._last.sequence]
            self._last = found[-1] if found else self._last
            if found or self.has_ended:
                self.run = await unit.runs.find_by_uid(self.run.uid) or self.run
        self.is_gone = not known
        return found


async def follow_run(core: Core, project: str, run_id: str) -> RunFollower:
    """Follow a run; raises `Missing`."""
    run, transitions = await get_run(core, project, run_id)
    return RunFollower(core, run, transitions)
