"""The ports and options that use cases and loops work with. `bootstrap` assembles them once."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import timedelta

from runyard.app.engine import Engine
from runyard.app.ports import Clock, LogStore, Store, Vault


class Signals:
    """Wakes waiters in this process when a run may have changed. Only a hint; the store has the truth."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self.due = asyncio.Event()
        """Set when the reconcile loop has something to do."""
        self.volumes = asyncio.Event()
        """Set when a volume was created or is to be deleted."""
        self.deletions = asyncio.Event()
        """Set when something is gone that the deletion of a project waits for."""

    def notify(self, run_uid: str) -> None:
        """Wake the waiters of that run, and the reconcile loop."""
        self.due.set()
        self.notify_readers(run_uid)

    def notify_readers(self, run_uid: str) -> None:
        """Wake the waiters of that run only: its log has grown or is complete."""
        for event in self._waiting.get(run_uid, ()):
            event.set()

    async def wait(self, run_uid: str, *, seconds: float) -> None:
        """Wait until the run may have changed, or until the time is up."""
        event = asyncio.Event()
        self._waiting[run_uid].add(event)
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            self._waiting[run_uid].discard(event)
            if not self._waiting[run_uid]:
                del self._waiting[run_uid]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The operator's settings that use cases need."""

    endpoint: str = "http://localhost:8080"
    """The URL of this server for pods and for the issuer of tokens."""
    engine: str | None = None
    """None: runs are accepted, resolved and stored, but stay READY."""
    files_store: str | None = None
    """Where clients store artifacts by default, such as `s3://bucket`."""
    refresh_token_life: timedelta = timedelta(days=30)
    personal_token_life: timedelta = timedelta(days=365)
    """Maximum and default lifetime of a personal token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """The ports and options. Every use case takes it as its first argument."""

    store: Store
    vault: Vault
    logs: LogStore
    clock: Clock
    engine: Engine | None = None
    """What executes runs, for use cases that only look or open sessions; the loops do the rest."""
    options: Options = field(default_factory=Options)
    signals: Signals = field(default_factory=Signals)
