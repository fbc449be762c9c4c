"""What use cases and loops work with, put together once by `bootstrap`."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import timedelta

from runyard.app.ports import Clock, LogStore, Store, Vault


class Signals:
    """Tells those who wait in this process that a run has changed. A hint only: what is true stands in the store."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self.due = asyncio.Event()
        """That the reconcile loop has something to do."""

    def notify(self, run_id: str) -> None:
        """Wake those who wait for that run, and the loop."""
        self.due.set()
        for event in self._waiting.get(run_id, ()):
            event.set()

    async def wait(self, run_id: str, *, seconds: float) -> None:
        """Until the run may have changed, at most that long."""
        event = asyncio.Event()
        self._waiting[run_id].add(event)
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            self._waiting[run_id].discard(event)
            if not self._waiting[run_id]:
                del self._waiting[run_id]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the operator chose and use cases need to know."""

    endpoint: str = "http://localhost:8080"
    """Where pods and tokens find this server."""
    engine: str | None = None
    """None: runs are accepted, resolved and stored, and stay READY."""
    files_store: str | None = None
    """Where clients put artifacts by default, such as `s3://bucket`."""
    refresh_token_life: timedelta = timedelta(days=30)
    personal_token_life: timedelta = timedelta(days=365)
    """The longest that a personal token may live, and its life where none is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """The ports and options. Use cases are functions that take it first."""

    store: Store
    vault: Vault
    logs: LogStore
    clock: Clock
    options: Options = field(default_factory=Options)
    signals: Signals = field(default_factory=Signals)
