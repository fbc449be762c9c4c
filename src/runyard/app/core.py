"""The ports and options that use cases and loops work with. `bootstrap` assembles them once."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from runyard.app.blob_store import BlobStore
from runyard.app.engine import Engine
from runyard.app.event_waits import wait_at_most
from runyard.app.files_store import FilesStore
from runyard.app.intake import Intake
from runyard.app.log_store import LogStore
from runyard.app.ports import Clock, Store
from runyard.app.vault import Vault


class Subscription:
    """One waiter for news of a run. News between two waits is not missed. Made by `Signals.subscribe`."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.has_run_changed = True
        """Whether the run itself may have changed, not only its log. The waiter clears it before it reads the run."""

    def wake(self, *, has_run_changed: bool) -> None:
        """There is news."""
        self.has_run_changed = self.has_run_changed or has_run_changed
        self._event.set()

    async def wait(self, *, seconds: float) -> None:
        """Wait until there is news since the last wait, or until the time is up."""
        await wait_at_most(self._event, seconds)
        self._event.clear()


class Signals:
    """Wakes waiters in this process when a run may have changed. Only a hint; the store has the truth."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[Subscription]] = defaultdict(set)
        self.due = asyncio.Event()
        """Set when the reconcile loop has something to do."""
        self.triggers = asyncio.Event()
        """Set when any run changed: a lifecycle trigger may wait for that."""
        self.volumes = asyncio.Event()
        """Set when a volume was created or is to be deleted."""
        self.deletions = asyncio.Event()
        """Set when something is gone that the deletion of a project waits for."""
        self.registries = asyncio.Event()
        """Set when registry credentials of a project changed."""
        self._changed_registries: set[str] = set()
        self.collected: set[str] = set()
        """The uids of runs whose logs this process collects: it notifies readers when they grow."""
        self.log_reads = asyncio.Event()
        """Set when somebody reads the log of a run."""
        self._read_logs: set[str] = set()

    def notify(self, run_uid: str) -> None:
        """Wake the waiters of that run, the reconcile loop and the trigger loop."""
        self.due.set()
        self.triggers.set()
        self._wake(run_uid, has_run_changed=True)

    def notify_readers(self, run_uid: str) -> None:
        """Wake the waiters of that run only: its log has grown or is complete."""
        self._wake(run_uid, has_run_changed=False)

    def notify_all(self) -> None:
        """Wake all waiters and loops: the server shuts down, or notifications of other replicas may be missing."""
        self.due.set()
        self.triggers.set()
        for run_uid in list(self._waiting):
            self._wake(run_uid, has_run_changed=True)

    def notify_registries(self, project: str) -> None:
        """Wake the registry loop: credentials of that project changed."""
        self._changed_registries.add(project)
        self.registries.set()

    def take_registries(self) -> set[str]:
        """The projects whose registry credentials changed since the last call."""
        taken, self._changed_registries = self._changed_registries, set()
        self.registries.clear()
        return taken

    def notify_collector(self, run_uid: str) -> None:
        """Wake the log collector: somebody reads the log of that run now."""
        if run_uid in self.collected:
            self._read_logs.add(run_uid)
            self.log_reads.set()

    def take_log_reads(self) -> set[str]:
        """The uids of runs whose logs were read since the last call; only of those that are collected here."""
        taken, self._read_logs = self._read_logs, set()
        self.log_reads.clear()
        return taken

    @contextmanager
    def subscribe(self, run_uid: str) -> Iterator[Subscription]:
        """Get the news of a run until the end of the block."""
        subscription = Subscription()
        self._waiting[run_uid].add(subscription)
        try:
            yield subscription
        finally:
            self._waiting[run_uid].discard(subscription)
            if not self._waiting[run_uid]:
                del self._waiting[run_uid]

    async def wait(self, run_uid: str, *, seconds: float) -> None:
        """Wait until the run may have changed, or until the time is up."""
        with self.subscribe(run_uid) as subscription:
            await subscription.wait(seconds=seconds)

    def _wake(self, run_uid: str, *, has_run_changed: bool) -> None:
        for subscription in self._waiting.get(run_uid, ()):
            subscription.wake(has_run_changed=has_run_changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The operator's settings that use cases need."""

    endpoint: str = "http://localhost:8080"
    """The URL of this server for pods and for the issuer of tokens."""
    client_configuration: Mapping[str, str] = field(default_factory=dict)
    """Where clients store files by themselves, in the names of DigitalHub's SDK. Public."""
    client_credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What every client that signs in gets for that place, in the same names."""
    max_file_bytes: int = 10 << 30
    """Of one file that the server stores."""
    max_entity_bytes: int = 100 << 30
    """Of all stored files of one artifact, data item or model."""
    max_project_bytes: int = 1 << 40
    """Of all stored files of a project."""
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
    blobs: BlobStore | None = None
    """Where the bytes of files are stored; None: this server stores none."""
    files_store: FilesStore | None = None
    """Where clients store files by themselves, if the server can read it, too."""
    options: Options = field(default_factory=Options)
    signals: Signals = field(default_factory=Signals)
    intake: Intake = field(default_factory=Intake)
