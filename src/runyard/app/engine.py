"""The Engine port: what executes runs. Engines observe and act; they never write runs.

An engine knows a run by its **anchor**, the one object that a run begins with: held back at first, its name derived
from the run's uid, known by a UID of its own from then on. The reconcile loop calls `ensure_anchor`, commits the UID,
calls `release`, and from there on only observes, stops and removes. Every obligation here is held to by
`tests/contract/engine`. Any call may be repeated, by several replicas, at any time, and after any crash.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from runyard.app.model import Json
from runyard.domain.effective_spec import EffectiveSpec
from runyard.domain.outcomes import Seen

STATUS_KEYS = ("pods", "service", "k8s", "events")
"""The keys of a run's status that an observation may set."""


class EngineError(Exception):
    """A call failed. `code` is a run reason (`domain.reasons`); the message holds no value of a secret."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class EngineUnavailable(EngineError):
    """The call may succeed later: the run stays as it is, and the call is retried."""


class EngineRefusal(EngineError):
    """The call can never succeed: the engine refuses the run, and a retry would not help."""


class Access(Protocol):
    """Secrets and token of a run, read when needed and stored nowhere."""

    async def read_secrets(self) -> Mapping[str, str]:
        """The values of the secrets that its spec names; raises `EngineRefusal` if one has none."""

    async def issue_token(self) -> str:
        """A token for that run alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A run as an engine gets it."""

    run_id: str
    """Unique in its project only, and an id may be used again."""
    run_uid: str
    project: str
    name: str
    kind: str
    user: str
    function: str | None = None
    task: str | None = None
    effective: EffectiveSpec
    generation: int
    """Counts changes of the desired state: a call of an older generation than the anchor has seen does nothing."""
    access: Access = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What an engine observes of an anchor."""

    uid: str
    seen: Seen
    version: int = 0
    """Never decreases for one anchor. Meaningless if the anchor is absent."""
    generation: int = 0
    """The newest generation that the anchor has obeyed. Meaningless if the anchor is absent."""
    reason: str | None = None
    message: str | None = None
    details: Json = field(default_factory=dict)
    """Some of `STATUS_KEYS`, each complete as far as the engine knows."""


class Engine(Protocol):
    """Executes runs. Raises `EngineUnavailable` and `EngineRefusal`; any other exception counts as the former."""

    name: str

    async def find_anchor(self, assignment: Assignment) -> str | None:
        """The UID of the run's anchor, or None; asks the cluster itself, not a cache."""

    async def ensure_anchor(self, assignment: Assignment) -> str:
        """Create the run's anchor, suspended, or find it by its name; concurrent calls create only one. Idempotent.

        An anchor of another run with the same id does not count: of an earlier one, or of one in another project.
        """

    async def release(self, assignment: Assignment, uid: str) -> None:
        """Start a suspended anchor, with everything it needs, owned by it; or start it again after a stop.

        Changes only that UID: if it is absent, nothing is created. An anchor that has ended by itself is not restarted.
        """

    async def observe(self, assignment: Assignment, uid: str) -> Observation:
        """The current observation, possibly from a cache; `absent` only after asking the cluster itself."""

    async def stop(self, assignment: Assignment, uid: str) -> None:
        """Begin to stop the run. A service keeps its anchor; a suspended anchor stays suspended."""

    async def remove(self, assignment: Assignment, uid: str) -> None:
        """Begin to remove the anchor of that UID and everything it owns, running or not."""

    def changes(self) -> AsyncIterator[str]:
        """Uids of runs that may have changed. Only a hint: every run is observed from time to time anyway."""

    async def close(self) -> None:
        """Close connections. Runs continue."""
