"""Leader election by a Lease object: of several processes, at most one leads.

The protocol is client-go's. The leader renews the Lease; a candidate takes it over when it has not changed for the
duration that it states. Each process measures that with its own clock, from the moment it saw the change: clocks of
different machines are never compared (clock skew). The clock goes on while the machine is suspended (CLOCK_BOOTTIME).

A leader leads for `renew_seconds` from the moment *before* it sent its last successful renewal. Others wait for
`lease_seconds`, which is longer, from the moment they saw it. So a leader that cannot renew, or was frozen, has stopped
before another begins, provided that it asks `Leadership.is_valid` before it acts. What it has sent by then may still
arrive: writes that must not be done twice carry a fencing token (`Leadership.term`) or a precondition.
The token begins anew only if the Lease is deleted while nobody runs who has seen it.
"""

import asyncio
import logging
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from runyard.kube.client import Client
from runyard.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from runyard.kube.objects import Object
from runyard.kube.rate_limiter import Priority
from runyard.kube.resources import LEASES
from runyard.kube.transport_errors import deadline

LONGEST_LEASE_SECONDS = 3600
"""How long a Lease of another holder is believed at most, whatever it states."""
LONGEST_IDENTITY_CHARACTERS = 200
"""How long an identity may be."""

_log = logging.getLogger(__name__)


class LeadershipLost(KubeError):
    """This process does not lead any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionTiming:
    """The durations of an election; each is shorter than the one before."""

    lease_seconds: int = 15
    """How long others wait after the last renewal that they saw."""
    renew_seconds: float = 10.0
    """How long a leader leads after its last renewal; the rest of the lease is for what it has sent by then."""
    retry_seconds: float = 2.0
    """The time between two renewals, and between two looks of a candidate."""
    release_seconds: float = 5.0
    """How long the release at the end may take."""

    def __post_init__(self) -> None:
        if not self.lease_seconds > self.renew_seconds > self.retry_seconds > 0:
            raise ValueError("lease_seconds, renew_seconds and retry_seconds must decrease and be more than 0")


class Leadership:
    """One term of this process as the leader; it ends for good when it was lost."""

    def __init__(self, identity: str, *, term: int, valid_until: float) -> None:
        self.identity = identity
        """This process in the Lease's `holderIdentity`."""
        self.term = term
        """A fencing token: the Lease's `leaseTransitions`, which grows with every term of any process."""
        self.since = datetime.now(UTC)
        """When this term began, by this machine's clock."""
        self._valid_until = valid_until
        self._lost = asyncio.Event()

    @property
    def is_valid(self) -> bool:
        """Whether this process leads now. False also if the loop was blocked or the machine suspended too long."""
        return not self._lost.is_set() and now() < self._valid_until

    def check(self) -> None:
        """Raise LeadershipLost if it does not lead now."""
        if not self.is_valid:
            raise LeadershipLost(f"{self.identity} leads no more: its term {self.term} has ended")

    @property
    def seconds_left(self) -> float:
        """How long this process leads without another renewal."""
        return max(0.0, self._valid_until - now()) if self.is_valid else 0.0

    async def wait_lost(self) -> None:
        """Wait until this term has ended."""
        await self._lost.wait()

    def extend(self, valid_until: float) -> None:
        """Note a renewal; called by the election."""
        self._valid_until = valid_until

    def end(self) -> None:
        """Note the end of this term; called by the election."""
        self._lost.set()


class LeaderElection:
    """A candidate for one Lease. Use it by `async with`: it leads sometimes, and releases the Lease at the end.

    `identity` names the process for humans; a random suffix makes it unique, so that a restarted process does not
    take its predecessor's Lease for its own.
    """

    def __init__(
        self, client: Client, name: str, *, namespace: str, identity: str, timing: ElectionTiming | None = None
    ) -> None:
        if not 0 < len(identity) <= LONGEST_IDENTITY_CHARACTERS:
            raise ValueError(f"identity has {len(identity)} characters; allowed: 1 to {LONGEST_IDENTITY_CHARACTERS}")
        # A renewal that waits behind creations would lose the lead.
        self._client = client.with_priority(Priority.STOP)
        self._name = name
        self._namespace = namespace
        self._timing = timing or ElectionTiming()
        self.identity = f"{identity}_{secrets.token_hex(8)}"
        self._label = f"lease {namespace}/{name}"
        self._last_error: KubeError | None = None
        self._seen: tuple[Any, ...] | None = None
        self._seen_at = 0.0
        self._highest_term = 0
        self._leadership: Leadership | None = None
        self._led = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self._holder = ""

    @property
    def leadership(self) -> Leadership | None:
        """The present term of this process; None while it does not lead."""
        return self._leadership if self._leadership is not None and self._leadership.is_valid else None

    @property
    def holder(self) -> str:
        """The identity that the Lease named last; empty if nobody held it."""
        return self._holder

    @property
    def last_error(self) -> KubeError | None:
        """Why the Lease could not be read or written; None after a success."""
        return self._last_error

    async def wait_leading(self) -> Leadership:
        """Wait until this process leads; LeadershipLost if the election is closed meanwhile."""
        while not self._is_closed:
            await self._led.wait()
            if (leadership := self.leadership) is not None:
                return leadership
            # Lost, and the loop has not noticed yet.
            await asyncio.sleep(self._timing.retry_seconds / 10)
        raise LeadershipLost("the election was closed")

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name=f"election {self._namespace}/{self._name}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait([self._task])
        had_led = self._leadership is not None
        self._lose()
        self._is_closed = True  # Not done by a task that was cancelled before it ever ran.
        self._led.set()
        if had_led:
            await self._release()
        if not self._task.cancelled():
            self._task.result()

    async def _run(self) -> None:
        """Look, acquire, renew: for ever. However it ends, nobody waits for it in vain."""
        try:
            while True:
                await self._attempt_in_time()
                leadership = self._leadership
                if leadership is not None and not leadership.is_valid:
                    self._lose("it was not renewed in time")
                    continue
                seconds = self._timing.retry_seconds
                await asyncio.sleep(seconds if leadership is None else min(seconds, leadership.seconds_left))
        finally:
            self._is_closed = True
            self._led.set()

    async def _attempt_in_time(self) -> None:
        """One attempt, for as long as a leader may go on without a renewal; notes how it failed."""
        seconds = self._timing.renew_seconds if self._leadership is None else self._leadership.seconds_left
        try:
            async with deadline(seconds):
                await self._attempt()
        except KubeError as error:
            if type(error) is not type(self._last_error):
                _log.warning("%s: %s", self._label, error)
            self._last_error = error.with_traceback(None)
        else:
            self._last_error = None

    async def _attempt(self) -> None:
        """Look at the Lease once; take or renew it where that is allowed."""
        began = now()
        try:
            lease = await self._client.get(LEASES, self._name, namespace=self._namespace)
        except NotFound:
            await self._create(began)
            return
        spec = lease.get("spec") or {}
        self._observe(spec, at=now())
        is_ours = spec.get("holderIdentity") == self.identity
        if is_ours and self._leadership is not None:
            await self._write(lease, self._build_spec(spec, term=self._leadership.term), began)
        elif self._leadership is not None:
            self._lose("another process took it")
        elif is_ours or self._is_free(spec):
            # Also if it is ours from a term that was lost: a new term has a new token.
            await self._write(lease, self._build_spec(spec, term=self._highest_term + 1), began)

    def _observe(self, spec: Object, *, at: float) -> None:
        """Remember when the record changed, by our own clock."""
        record = tuple(spec.get(field) for field in ("holderIdentity", "acquireTime", "renewTime", "leaseTransitions"))
        self._holder = str(spec.get("holderIdentity") or "")
        self._highest_term = max(self._highest_term, _term_of(spec))
        if record != self._seen:
            self._seen, self._seen_at = record, at

    def _is_free(self, spec: Object) -> bool:
        if not spec.get("holderIdentity"):
            return True
        stated = spec.get("leaseDurationSeconds")
        seconds = stated if isinstance(stated, int) else self._timing.lease_seconds
        return now() - self._seen_at > min(seconds, LONGEST_LEASE_SECONDS)

    def _build_spec(self, spec: Object, *, term: int) -> Object:
        moment = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        is_renewal = spec.get("holderIdentity") == self.identity and spec.get("leaseTransitions") == term
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._timing.lease_seconds,
            "acquireTime": spec.get("acquireTime", moment) if is_renewal else moment,
            "renewTime": moment,
            "leaseTransitions": term,
        }

    async def _create(self, began: float) -> None:
        if self._leadership is not None:
            self._lose("somebody deleted it")
        spec = self._build_spec({}, term=self._highest_term + 1)
        body = {"metadata": {"name": self._name}, "spec": spec}
        try:
            await self._client.create(LEASES, body, namespace=self._namespace)
        except AlreadyExists:
            return  # Another candidate was faster.
        self._win(spec, began)

    async def _write(self, lease: Object, spec: Object, began: float) -> None:
        """Replace the Lease if nobody changed it meanwhile."""
        try:
            await self._client.replace(LEASES, {**lease, "spec": spec})
        except (Conflict, NotFound):
            return  # The next look tells who was faster; a repeat of our own write may end here, too.
        self._win(spec, began)

    def _win(self, spec: Object, began: float) -> None:
        valid_until = began + self._timing.renew_seconds
        self._observe(spec, at=now())
        if self._leadership is not None:
            self._leadership.extend(valid_until)
            return
        self._leadership = Leadership(self.identity, term=_term_of(spec), valid_until=valid_until)
        self._led.set()
        _log.info("%s: %s leads, term %d", self._label, self.identity, self._leadership.term)

    def _lose(self, why: str | None = None) -> None:
        self._led.clear()
        if why is not None:
            _log.warning("%s: %s; %s leads no more", self._label, why, self.identity)
        if self._leadership is not None:
            self._leadership.end()
            self._leadership = None

    async def _release(self) -> None:
        """Let the next one lead at once, instead of after `lease_seconds`."""
        try:
            async with deadline(self._timing.release_seconds):
                lease = await self._client.get(LEASES, self._name, namespace=self._namespace)
                spec = lease.get("spec") or {}
                if spec.get("holderIdentity") == self.identity:
                    freed = {**spec, "holderIdentity": "", "leaseDurationSeconds": 1}
                    await self._client.replace(LEASES, {**lease, "spec": freed})
        except KubeError as error:
            _log.warning("%s: not released by %s: %s", self._label, self.identity, error)


def _term_of(spec: Object) -> int:
    stated = spec.get("leaseTransitions")
    return stated if isinstance(stated, int) else 0


def now() -> float:
    """Seconds of a clock that never goes back, and that goes on while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
