"""Room for runs on this machine: who has which part of it, and who waits for it in which order.

Several engines (processes) may share a place, so the claims are in a journal under the place: each change is a line,
the last line of a run wins, and every change is made under one flock. A claim holds its room as long as the run's
supervisor lives, or while a living engine is about to start it; so room that nobody gave back is found free later.

The queue is first in, first out by the anchor's sequence. The demands of earlier waiting runs count as taken (a
reservation): a later run starts before them only with what they do not need, so large runs are not starved. A run that
is larger than the machine is not queued.
"""

import fcntl
import os
import secrets
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Self

from runyard.engines.local.capacity.amounts import DISK, RUNS, Amounts, format_resource, to_quantity
from runyard.engines.local.capacity.claim_journal import NOBODY, Claim, Entry, Journal
from runyard.engines.local.capacity.machine import GPU_RESOURCE, Gpu, Machine
from runyard.pods.snapshot import Snapshot

ORPHANED_SECONDS = 30.0
"""How long a waiting run keeps its turn after its engine died; the next server releases it again before that."""
MOST_EXPLAINED = 100
"""How many waiting runs, the first ones, `list_shortages` explains."""
MOST_NAMED_RESOURCES = 8
"""How many resources a shortage names; the others are counted."""


@dataclass(frozen=True, slots=True)
class Share:
    """The part of the machine that a run got."""

    run_uid: str
    gpus: tuple[Gpu, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """One resource of which there is too little."""

    resource: str
    asked: int
    free: int
    """What no active run has."""
    total: int

    def __str__(self) -> str:
        asked, free, total = (format_resource(self.resource, n) for n in (self.asked, max(0, self.free), self.total))
        name = "runs" if self.resource == RUNS else self.resource
        return f"{name} (asks for {asked}; {free} of {total} free)"

    def describe_total(self) -> str:
        """What was asked and what the machine has."""
        asked, total = (format_resource(self.resource, n) for n in (self.asked, self.total))
        return f"{self.resource} (asks for {asked}; the machine has {total})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Why a run has no room now."""

    is_impossible: bool
    """It asks for more than the machine has: it waits, and holds nobody back."""
    lacks: tuple[Lack, ...]
    """What it is short of; empty if it fits and only waits for its turn."""
    before: int = 0
    """How many runs wait before it."""

    def __str__(self) -> str:
        named = self.lacks[:MOST_NAMED_RESOURCES]
        others = f" and {len(self.lacks) - len(named)} more" * (len(self.lacks) > len(named))
        if self.is_impossible:
            return f"asks for more than this machine has: {', '.join(lack.describe_total() for lack in named)}{others}"
        queue = f"{self.before} run{'s' * (self.before != 1)} wait{'s' * (self.before == 1)} before it"
        waited = f"{', '.join(map(str, named))}{others}" if named else "its turn"
        return f"waits for {waited}; {queue}"


class Room:
    """The claims on this machine, shared by all engines of a place.

    Thread-safe. Every method takes a file lock and so blocks, briefly: call it in a thread. OSError if the place cannot
    be written.
    """

    def __init__(
        self,
        folder: Path,
        machine: Machine,
        *,
        is_supervised: Callable[[Path], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`folder` is for the room alone. `clock` must be the same for all engines of the machine."""
        self._machine = machine
        self._journal = Journal(folder / "journal")
        self._engines = folder / "engines"
        self._lock_path = folder / "lock"
        self._is_supervised = is_supervised
        self._clock = clock
        self._owner = secrets.token_hex(8)
        self._thread_lock = threading.Lock()
        self._descriptors: list[int] = []

    def open(self) -> Self:
        """Register this engine, so that others know that it lives."""
        self._engines.mkdir(parents=True, exist_ok=True)
        self._descriptors.append(os.open(self._lock_path, os.O_RDWR | os.O_CREAT, 0o600))
        with self._locked():
            own = os.open(self._engines / self._owner, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            self._descriptors.append(own)
            fcntl.flock(own, fcntl.LOCK_EX)
        return self

    def close(self) -> None:
        """Leave. What runs keeps its room, and what waits keeps its turn for `ORPHANED_SECONDS`. Idempotent."""
        with self._thread_lock:
            (self._engines / self._owner).unlink(missing_ok=True)
            self._journal.close()
            for descriptor in self._descriptors:
                os.close(descriptor)
            self._descriptors.clear()

    def take(self, claim: Claim) -> Share | Shortage:
        """Take room for a run, or queue it. Idempotent; a run that is queued in another engine is queued here then.

        With a share, start the supervision of the claim and call `confirm`; if it cannot be started, call `give_back`.
        A shortage that is not impossible is queued: `retry` gives its share later.
        """
        with self._locked():
            held = self._journal.claims.active.get(claim.run_uid)
            if held is not None and held.claim.supervision == claim.supervision and self._is_alive(held):
                return self._to_share(held)
            if lacks := self._find_lacks(claim.demand, self._machine.allocatable()):
                self._journal.remove(claim.run_uid)
                return Shortage(is_impossible=True, lacks=lacks)
            queued = Entry(claim, "waiting", self._owner)
            if self._journal.claims.waiting.get(claim.run_uid) != queued:
                self._journal.put(queued)
            shares = self._start_queued(only=claim.run_uid)
            if not shares and self._sweep():
                shares = self._start_queued(only=claim.run_uid)
            return shares[0] if shares else self._explain(claim)

    def retry(self) -> tuple[Share, ...]:
        """Take room for the runs that wait in this engine, in order; the same obligations as of `take`.

        Call it when a run has ended, and every few seconds: runs of other engines end too.
        """
        with self._locked():
            self._sweep()
            return self._start_queued()

    def confirm(self, run_uid: str) -> None:
        """The supervision of the run is started: from now on its room is taken as long as it lives."""
        with self._locked():
            entry = self._journal.claims.active.get(run_uid)
            if entry is not None and entry.state == "starting":
                self._journal.put(replace(entry, state="running"))

    def give_back(self, run_uid: str) -> None:
        """Free the room of a run that has ended, or leave the queue. Idempotent."""
        with self._locked():
            self._journal.remove(run_uid)

    def list_shortages(self, *, most: int = MOST_EXPLAINED) -> dict[str, Shortage]:
        """Why the first runs that wait in this engine wait now, by run."""
        with self._locked():
            free = self._measure_free()
            claims = self._journal.claims
            own = (
                (place, uid) for place, (_, uid) in enumerate(claims.queue) if claims.waiting[uid].owner == self._owner
            )
            return {
                uid: self._explain(claims.waiting[uid].claim, before=place, free=free)
                for place, uid in islice(own, most)
            }

    def snapshot(self) -> Snapshot:
        """The machine as one node, and a pod for each run that has room."""
        with self._locked():
            self._sweep()
            active = list(self._journal.claims.active.values())
        node = render_node(self._machine)
        name = node["metadata"]["name"]
        pods = tuple(_render_pod(entry.claim, name) for entry in active)
        return Snapshot(at=datetime.now(UTC).isoformat(), nodes=(node,), pods=pods)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the room, with the claims as they are now."""
        with self._thread_lock:
            if not self._descriptors:
                raise RuntimeError("the room is not open")
            fcntl.flock(self._descriptors[0], fcntl.LOCK_EX)
            try:
                self._journal.sync()
                yield
            finally:
                fcntl.flock(self._descriptors[0], fcntl.LOCK_UN)

    def _start_queued(self, *, only: str | None = None) -> tuple[Share, ...]:
        """Give room to the queued runs of this engine that fit, in order; ends where no later run could fit.

        Each run counts as one of `RUNS`, so at most `most_runs` entries of the queue are looked at.
        """
        free = self._measure_free()
        starting = []
        for _, run_uid in self._journal.claims.queue:
            if free[RUNS] <= 0:
                break
            entry = self._journal.claims.waiting[run_uid]
            is_own = entry.owner == self._owner and only in (None, run_uid)
            if is_own and all(amount <= free.get(resource, 0) for resource, amount in entry.claim.demand.items()):
                starting.append(entry)
            if run_uid == only:
                break
            for resource, amount in entry.claim.demand.items():
                free[resource] = free.get(resource, 0) - amount
        return tuple(map(self._start, starting))

    def _start(self, entry: Entry) -> Share:
        taken = {name for other in self._journal.claims.active.values() for name in other.gpus}
        names = [gpu.id for gpu in self._machine.gpus if gpu.id not in taken]
        gpus = tuple(names[: entry.claim.demand.get(GPU_RESOURCE, 0)])
        started = replace(entry, state="starting", gpus=gpus)
        self._journal.put(started)
        return self._to_share(started)

    def _to_share(self, entry: Entry) -> Share:
        return Share(entry.claim.run_uid, tuple(gpu for gpu in self._machine.gpus if gpu.id in entry.gpus))

    def _explain(self, claim: Claim, *, before: int | None = None, free: Amounts | None = None) -> Shortage:
        if before is None:
            before = bisect_left(self._journal.claims.queue, (claim.sequence, claim.run_uid))
        lacks = self._find_lacks(claim.demand, free or self._measure_free())
        return Shortage(is_impossible=False, lacks=lacks, before=before)

    def _measure_free(self) -> Amounts:
        """What no active run has. What runs have written already counts twice on the disk: as used and as promised."""
        free = self._machine.allocatable() | {DISK: self._machine.measure_disk()[1]}
        for entry in self._journal.claims.active.values():
            for resource, amount in entry.claim.demand.items():
                free[resource] = free.get(resource, 0) - amount
        return free

    def _find_lacks(self, demand: Amounts, free: Amounts) -> tuple[Lack, ...]:
        total = self._machine.allocatable()
        return tuple(
            Lack(resource=name, asked=asked, free=free.get(name, 0), total=total.get(name, 0))
            for name, asked in demand.items()
            if asked > free.get(name, 0)
        )

    def _sweep(self) -> bool:
        """Remove claims that nobody will use anymore; returns whether something changed."""
        claims = self._journal.claims
        gone = [entry for entry in claims.active.values() if not self._is_alive(entry)]
        now = self._clock()
        gone += [entry for entry in claims.orphans() if not 0 <= (entry.until or 0) - now <= ORPHANED_SECONDS]
        for entry in gone:
            self._journal.remove(entry.claim.run_uid)
        dead = [owner for owner in claims.waiting_owners if not self._is_owner_alive(owner)]
        for entry in [entry for entry in claims.waiting.values() if entry.owner in dead] if dead else []:
            self._journal.put(replace(entry, owner=NOBODY, until=now + ORPHANED_SECONDS))
        return bool(gone)

    def _is_alive(self, entry: Entry) -> bool:
        if entry.state == "starting" and self._is_owner_alive(entry.owner):
            return True
        return self._is_supervised(entry.claim.supervision)

    def _is_owner_alive(self, owner: str) -> bool:
        """Whether that engine holds its lock."""
        if owner in (self._owner, NOBODY):
            return True
        path = self._engines / owner
        try:
            descriptor = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        path.unlink(missing_ok=True)
        return False


def render_node(machine: Machine) -> dict[str, Any]:
    """The machine as a node of Kubernetes, with the fields that decide where a pod fits."""
    allocatable = {name: to_quantity(name, amount).text for name, amount in machine.allocatable().items()}
    labels = {
        "kubernetes.io/hostname": machine.hostname,
        "kubernetes.io/arch": machine.architecture,
        "kubernetes.io/os": "linux",
    }
    return {
        "metadata": {"name": machine.hostname, "labels": labels},
        "spec": {},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _render_pod(claim: Claim, node: str) -> dict[str, Any]:
    requests = {name: to_quantity(name, amount).text for name, amount in claim.demand.items() if name != RUNS}
    return {
        "metadata": {"name": claim.run_uid, "uid": claim.run_uid},
        "spec": {"nodeName": node, "containers": [{"name": "main", "resources": {"requests": requests}}]},
        "status": {"phase": "Running"},
    }
