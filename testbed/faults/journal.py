"""What a fault proxy did, so that a test can prove that it happened."""

import threading
import time
from collections import Counter, deque
from dataclasses import dataclass

from testbed.faults.http1 import Request
from testbed.faults.plan import Fault

JOURNAL_LIMIT = 100_000


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that was done to a client: when (seconds since the start), what, and during which request.

    `fault` is None for what no plan asked for: `refuse` and `sever` by command, `overflow` (too many
    connections), and `unreachable` (the upstream could not be reached, so the client was reset).
    """

    at_seconds: float
    kind: str
    request: Request | None = None
    fault: Fault | None = None


class Journal:
    """Entries and their counts; written by the proxy's thread, read by any."""

    def __init__(self) -> None:
        self._began_at = time.monotonic()
        self._entries: deque[Entry] = deque(maxlen=JOURNAL_LIMIT)
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def record(self, kind: str, *, request: Request | None = None, fault: Fault | None = None) -> None:
        """Add an entry."""
        entry = Entry(time.monotonic() - self._began_at, kind, request, fault)
        with self._lock:
            self._entries.append(entry)
            self._counts[kind] += 1

    def entries(self) -> list[Entry]:
        """The entries so far, oldest first; the last 100,000."""
        with self._lock:
            return list(self._entries)

    def counts(self) -> Counter[str]:
        """How many entries of each kind there were, forgotten ones included."""
        with self._lock:
            return self._counts.copy()
