"""All that is known of one run at the end: what users asked, what the API says, and what really happened."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.chaos.audit_log import AuditEntry
from tests.chaos.kept_logs import Instance, PrintedLine
from tests.chaos.witness import Sighting
from tests.chaos.workloads import Workload

FINAL = ("COMPLETED", "ERROR", "STOPPED")


@dataclass(frozen=True, slots=True)
class Tampering:
    """What a fault did to an object of a run, behind the engine's back."""

    at: float
    resource: str
    name: str
    run_id: str


@dataclass(frozen=True, slots=True)
class StoredGap:
    """A gap that a stored log names, with its span in seconds since the epoch."""

    cause: str
    since: float
    until: float


@dataclass(slots=True)
class StoredLog:
    """One stream as the API gives it: lines, with the gaps between them."""

    pieces: list[str | StoredGap] = field(default_factory=list)

    @property
    def segments(self) -> list[list[str]]:
        """The lines between gaps; one more than there are gaps, each possibly empty."""
        found: list[list[str]] = [[]]
        for piece in self.pieces:
            if isinstance(piece, StoredGap):
                found.append([])
            else:
                found[-1].append(piece)
        return found


@dataclass(slots=True, kw_only=True)
class Evidence:
    """Of one run."""

    workload: Workload
    submit_asked_at: float = 0.0
    is_submitted: bool = False
    """Whether the API has acknowledged it."""
    stop_asked_at: float | None = None
    is_stop_acknowledged: bool = False
    delete_asked_at: float | None = None
    is_delete_acknowledged: bool = False
    document: dict[str, Any] | None = None
    """The run at the end; None: it is gone."""
    logs: Mapping[str, StoredLog] = field(default_factory=dict)
    """By the name of the stream: `pod/main`, `pod/main/1`."""
    anchors: Sequence[Sighting] = ()
    pods: Sequence[Sighting] = ()
    printed: Mapping[Instance, list[PrintedLine]] = field(default_factory=dict)
    entries: Sequence[AuditEntry] = ()
    """Every write to its objects."""
    tamperings: Sequence[Tampering] = ()
    remains: Sequence[dict[str, Any]] = ()
    """Its objects that are there at the end."""

    @property
    def status(self) -> dict[str, Any]:
        """As the API gives it."""
        return {} if self.document is None else self.document["status"]

    @property
    def state(self) -> str:
        """As the API gives it; GONE for a run that is deleted."""
        return "GONE" if self.document is None else str(self.status["state"])

    @property
    def is_ending_asked(self) -> bool:
        """Whether a user asked for its end."""
        return self.stop_asked_at is not None or self.delete_asked_at is not None

    def was_ending_due(self, at: float) -> bool:
        """Whether a user had asked for its end by then, or one of its timeouts could have passed.

        The timeout for what waits counts for a run that reports it, or is deleted; for others only if the cluster had
        not said by then that it runs. Such a run may end before it is told.
        """
        workload = self.workload
        waited_until = self.submit_asked_at + (workload.pending_timeout_seconds or 0)
        has_run = any(pod.start_told_at is not None and pod.start_told_at < waited_until for pod in self.pods)
        has_waited = self.document is None or self.status.get("reason") == "timeout.pending" or not has_run
        timeouts = (workload.timeout_seconds, workload.pending_timeout_seconds if has_waited else None)
        passed = [self.submit_asked_at + seconds for seconds in timeouts if seconds is not None]
        asked = [moment for moment in (self.stop_asked_at, self.delete_asked_at) if moment is not None]
        return any(moment <= at for moment in (*passed, *asked))


def read_stored_logs(text: str, *, marker: str, stream: str | None) -> dict[str, StoredLog]:
    """Take the text of `/log` apart; `stream` is the name of its only stream, if it has one."""
    logs: dict[str, StoredLog] = {}
    current = logs.setdefault(stream, StoredLog()) if stream is not None else None
    for line in text.splitlines():
        if not line.startswith(f"{marker} "):
            if current is None:
                raise ValueError(f"a line before the first stream: {line[:200]}")
            current.pieces.append(line)
            continue
        said = json.loads(line.removeprefix(marker))
        if "stream" in said:
            current = logs.setdefault(str(said["stream"]), StoredLog())
        elif "gap" in said and current is not None:
            since, until = (datetime.fromisoformat(said[name]).timestamp() for name in ("since", "until"))
            current.pieces.append(StoredGap(str(said["gap"]), since, until))
    return logs


def index_by_run(items: Iterable[Any]) -> dict[str, list[Any]]:
    """Group things by their `run_id`."""
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(item.run_id, []).append(item)
    return found
