"""The Engine port: what executes runs. Engines observe and act; they never write runs.

An engine knows a run by its **anchor**, the one object that a run begins with: held back at first, its name derived
from the run's id, known by a UID from then on. The reconcile loop calls `ensure_anchor`, commits the UID, calls
`release`, and from there on only observes, stops and removes. Every obligation here is held to by
`tests/contract/engine`. Any call may be repeated, by several replicas, at any time, and after any crash.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from runyard.app.model import Json
from runyard.domain.effective_spec import EffectiveSpec
from runyard.domain.outcomes import Seen

STATUS_KEYS = ("pods", "service", "k8s", "events")
"""What an observation may put into a run's status."""


class EngineError(Exception):
    """A call did not succeed. `code` is dotted and stable; the message holds no value of a secret."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class EngineUnavailable(EngineError):
    """It may succeed later: nothing about the run changes, and the call is made again."""


class EngineRefusal(EngineError):
    """It cannot succeed as it is: what was asked for is refused, and asking again helps nobody."""


class Access(Protocol):
    """What a run may know, read at the moment of acting and kept nowhere."""

    async def read_secrets(self) -> Mapping[str, str]:
        """The values of the secrets that its spec names; `EngineRefusal` if one has none."""

    async def issue_token(self) -> str:
        """A token for that run alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A run as an engine gets it."""

    run_id: str
    incarnation: str
    """Tells a run from an earlier one of the same id that was deleted."""
    project: str
    name: str
    kind: str
    user: str
    function: str | None = None
    task: str | None = None
    effective: EffectiveSpec
    generation: int
    """Counts what was wanted of the run: an act of an older generation than the anchor has seen does nothing."""
    access: Access = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What is seen of an anchor."""

    uid: str
    seen: Seen
    version: int = 0
    """Only grows, for one anchor. Of an absent one it means nothing."""
    generation: int = 0
    """The newest generation that the anchor has obeyed. Of an absent one it means nothing."""
    reason: str | None = None
    message: str | None = None
    details: Json = field(default_factory=dict)
    """Some of `STATUS_KEYS`: the whole truth about them, as far as the engine knows it."""


class Engine(Protocol):
    """Executes runs. Raises `EngineUnavailable` and `EngineRefusal`; anything else is taken for the former."""

    name: str

    async def find_anchor(self, assignment: Assignment) -> str | None:
        """The UID of the run's anchor if there is one, by a look at the place itself."""

    async def ensure_anchor(self, assignment: Assignment) -> str:
        """Make the run's anchor, held back, or find it by its name; however many ask at once, there is one.

        An anchor of another incarnation is none of this run's: one that was never released is removed, for another
        `EngineUnavailable` is raised until it is gone.
        """

    async def release(self, assignment: Assignment, uid: str) -> None:
        """Start what is held: for the first time, with all that it needs, owned by the anchor; or after a stop.

        Touches only that UID: where it is absent, nothing is made. What has ended by itself is not started again.
        """

    async def observe(self, assignment: Assignment, uid: str) -> Observation:
        """What is seen now, perhaps from what the engine remembers; `absent` only after a look at the place itself."""

    async def stop(self, assignment: Assignment, uid: str) -> None:
        """Begin to end what is at work. What can be resumed keeps its anchor; what was held stays held."""

    async def remove(self, assignment: Assignment, uid: str) -> None:
        """Begin to remove the anchor of that UID and everything it owns, at work or not."""

    def changes(self) -> AsyncIterator[str]:
        """Ids of runs of which something may have changed. A hint: runs are looked at from time to time anyway."""

    async def close(self) -> None:
        """Give back connections. Runs go on."""
