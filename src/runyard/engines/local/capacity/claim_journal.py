"""The journal of claims on the machine: one line per change, the last line of a run wins.

The caller holds the lock of the room for every call. A line that was cut by a crash is skipped: its change was never
confirmed to anybody. No fsync: after a power cut nothing of the runs lives.
"""

import json
import os
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from runyard.engines.local.capacity.amounts import Amounts

LARGEST_JOURNAL_BYTES = 4 << 20
"""How large the journal grows before it is written anew, if most of its lines are outdated."""
MOST_OUTDATED_SHARE = 4
"""How many lines per current claim the journal may have when it is large."""
NOBODY = ""
"""The owner of a waiting run whose engine died."""

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a run asks for."""

    run_uid: str
    sequence: int
    """Of its anchor: the lowest starts first."""
    demand: Amounts
    """From `amounts.read_demand`."""
    supervision: Path
    """The folder of the supervision that will use the room: the room is taken as long as it is supervised."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A claim in the journal."""

    claim: Claim
    state: Literal["waiting", "starting", "running"]
    owner: str
    """The engine that will start it."""
    gpus: tuple[str, ...] = ()
    until: float | None = None
    """When a waiting run without an engine loses its turn."""


@dataclass(slots=True)
class Claims:
    """All current claims."""

    active: dict[str, Entry] = field(default_factory=dict)
    """Those that have room, by run."""
    waiting: dict[str, Entry] = field(default_factory=dict)
    queue: list[tuple[int, str]] = field(default_factory=list)
    """Sequence and run of those that wait, in order."""
    waiting_owners: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.active) + len(self.waiting)

    def orphans(self) -> list[Entry]:
        """The waiting runs whose engine died."""
        return [entry for entry in self.waiting.values() if entry.until] if self.waiting_owners[NOBODY] else []

    def put(self, entry: Entry) -> None:
        """Add or replace the claim of a run."""
        run_uid = entry.claim.run_uid
        self.remove(run_uid)
        if entry.state == "waiting":
            self.waiting[run_uid] = entry
            self.waiting_owners[entry.owner] += 1
            insort(self.queue, (entry.claim.sequence, run_uid))
        else:
            self.active[run_uid] = entry

    def remove(self, run_uid: str) -> bool:
        """Remove the claim of a run; returns whether there was one."""
        if self.active.pop(run_uid, None) is not None:
            return True
        entry = self.waiting.pop(run_uid, None)
        if entry is None:
            return False
        self.waiting_owners[entry.owner] -= 1
        if not self.waiting_owners[entry.owner]:
            del self.waiting_owners[entry.owner]
        del self.queue[bisect_left(self.queue, (entry.claim.sequence, run_uid))]
        return True


class Journal:
    """The file, and the claims that it holds as of the last `sync`."""

    def __init__(self, path: Path) -> None:
        self.claims = Claims()
        self._path = path
        self._descriptor: int | None = None
        self._inode = -1
        self._offset = 0
        self._lines = 0
        self._is_torn = False

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None
        self._inode = -1

    def sync(self) -> None:
        """Read what other processes wrote since the last call."""
        try:
            inode = self._path.stat().st_ino
        except FileNotFoundError:
            inode = -1
        if self._descriptor is None or inode != self._inode:
            self._reopen()
        rest = b""
        while content := os.pread(self._open_descriptor, _CHUNK_BYTES, self._offset):
            self._offset += len(content)
            *lines, rest = (rest + content).split(b"\n")
            for line in lines:
                self._apply(line)
            self._is_torn = bool(rest)

    def put(self, entry: Entry) -> None:
        """Write the claim of a run, in place of an older one."""
        self._append(_write_entry(entry))
        self.claims.put(entry)
        self._compact_if_outdated()

    def remove(self, run_uid: str) -> None:
        """Write that the run has no claim anymore; nothing if it has none."""
        if run_uid in self.claims.active or run_uid in self.claims.waiting:
            self._append({"run": run_uid})
            self.claims.remove(run_uid)
            self._compact_if_outdated()

    @property
    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            raise RuntimeError("the journal is read before it is written")
        return self._descriptor

    def _reopen(self) -> None:
        self.close()
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._inode = os.fstat(self._descriptor).st_ino
        self._offset = self._lines = 0
        self._is_torn = False
        self.claims = Claims()

    def _apply(self, line: bytes) -> None:
        self._lines += 1
        try:
            document = json.loads(line)
            run_uid, entry = str(document["run"]), _read_entry(document)
        except (ValueError, KeyError, TypeError, AttributeError):
            return
        if entry is None:
            self.claims.remove(run_uid)
        else:
            self.claims.put(entry)

    def _append(self, document: dict[str, object]) -> None:
        content = b"\n" * self._is_torn + json.dumps(document).encode() + b"\n"
        if os.write(self._open_descriptor, content) != len(content):
            os.ftruncate(self._open_descriptor, self._offset)
            raise OSError(f"{self._path}: the disk is full")
        self._offset += len(content)
        self._lines += 1
        self._is_torn = False

    def _compact_if_outdated(self) -> None:
        is_outdated = self._lines > MOST_OUTDATED_SHARE * (len(self.claims) + 1)
        if self._offset < LARGEST_JOURNAL_BYTES or not is_outdated:
            return
        written = self._path.with_suffix(".new")
        with written.open("wb") as file:
            file.writelines(json.dumps(_write_entry(entry)).encode() + b"\n" for entry in self._iter_entries())
        written.replace(self._path)
        self.sync()

    def _iter_entries(self) -> Iterator[Entry]:
        yield from self.claims.active.values()
        yield from self.claims.waiting.values()


def _write_entry(entry: Entry) -> dict[str, object]:
    return {
        "run": entry.claim.run_uid,
        "sequence": entry.claim.sequence,
        "demand": entry.claim.demand,
        "supervision": str(entry.claim.supervision),
        "state": entry.state,
        "owner": entry.owner,
        "gpus": entry.gpus,
        "until": entry.until,
    }


def _read_entry(document: dict[str, object]) -> Entry | None:
    """The claim of a line, or None if the line removes it. Raises ValueError, KeyError or TypeError."""
    if "state" not in document:
        return None
    sequence, demand, state = document["sequence"], document["demand"], document["state"]
    gpus, until = document["gpus"], document["until"]
    if not isinstance(sequence, int) or not isinstance(demand, dict) or not isinstance(gpus, list):
        raise TypeError("not a claim")
    if state not in ("waiting", "starting", "running") or not isinstance(until, float | None):
        raise ValueError("not a claim")
    claim = Claim(
        run_uid=str(document["run"]),
        sequence=sequence,
        demand={str(name): int(amount) for name, amount in demand.items()},
        supervision=Path(str(document["supervision"])),
    )
    return Entry(claim, state, str(document["owner"]), tuple(map(str, gpus)), until)
