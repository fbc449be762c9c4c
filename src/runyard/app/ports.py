"""The ports of the application, as Protocols. Contract tests hold every implementation to these docstrings.

Times are aware and in UTC. All writes go through a `UnitOfWork`: nothing is stored before `commit` returns, and nothing
is lost once it has returned.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Literal, Protocol

from runyard.app.list_query import Page, Query
from runyard.app.model import (
    EVERY_ENTRY,
    Account,
    AuditEntry,
    AuditFilter,
    Entity,
    Json,
    Lease,
    Revision,
    Run,
    RunKey,
    SealedValue,
    Share,
    Token,
    Transition,
)
from runyard.app.stored_files import Files
from runyard.app.unparsed_entities import Unparsed
from runyard.domain.outcomes import Lane


class Duplicate(Exception):
    """An entity of that type and id, or of that unique name, already exists; nothing was written."""


class Stale(Exception):
    """The row has changed since it was read, or the lease has expired or changed hands; nothing was written."""


class Unavailable(Exception):
    """The storage cannot be reached now; nothing was written."""

    shown = "the database is unavailable; try again later"
    """The message for users. Addresses and causes belong into the log."""


class Unstorable(Exception):
    """A text that not every database can store in an indexed column. The message never contains the text."""


class Unchanged(Enum):
    """Keeps a value as it is, where None is a value, too."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED
DueIn = timedelta | None | Unchanged
"""When a run is due, counted from now on the database's clock; None: only when something happens."""
OVERDUE = timedelta(seconds=10)
"""When a run that its own replica has not claimed is left to any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUpdate:
    """What `Runs.update_many` writes of one run."""

    before: Run
    after: Run
    transitions: Sequence[Transition] = ()
    due_in: DueIn = UNCHANGED


@dataclass(frozen=True, slots=True, kw_only=True)
class MountingRun:
    """A run that may still mount claims, with its stored effective spec."""

    uid: str
    id: str
    state: str
    effective: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityKey:
    """What it takes to sort an entity or run among others and to count its bytes, without its documents."""

    type: str
    id: str
    name: str
    kind: str
    created_at: datetime
    updated_at: datetime
    metadata_bytes: int
    """The size of its metadata, as it is stored."""


@dataclass(frozen=True, slots=True)
class KeyPage:
    """One page of keys, and the number of matches in all."""

    content: tuple[EntityKey, ...]
    total: int


class EntityLookup(Protocol):
    """Finds single entities, as far as following a run's references needs it."""

    async def find(self, entity_type: str, entity_id: str, *, project: str) -> Entity | None:
        """By id, which is unique in its project for each type."""

    async def find_latest(self, entity_type: str, *, project: str, name: str) -> Entity | None:
        """The newest version of that name."""


class Entities(EntityLookup, Protocol):
    """All entities but runs. Includes projects: type `project`, whose id is the name, in the project of that name."""

    async def add(self, entity: Entity) -> None:
        """Raises `Duplicate`: in its project, the same type and id; function and kind (tasks); name (secrets)."""

    async def find_project(self, name: str) -> Entity | None:
        """The project of that name."""

    async def find_page(self, query: Query) -> Page:
        """A page of complete entities."""

    async def find_keys(self, query: Query) -> KeyPage:
        """The keys of such a page. `most_bytes` has no effect."""

    async def list_summaries(self, entity_type: str, ids: Sequence[str], *, project: str) -> Sequence[Unparsed]:
        """Those entities of a project that exist, in any order, with metadata but no other document."""

    async def list_projects_in_state(self, state: str) -> Sequence[str]:
        """The names of the projects in a state, sorted."""

    async def list_project_statuses(self, *, after: str = "", limit: int) -> Sequence[tuple[str, Json]]:
        """Names of projects with their status, by name; `after` is the last name of the page before."""

    async def list_changed(
        self,
        entity_type: str,
        *,
        project: str,
        since: datetime,
        after: tuple[datetime, str] | None = None,
        limit: int,
    ) -> Sequence[Entity]:
        """Entities updated since then, in the order of update time and id, with metadata but no other document.

        `after` is the update time and id of the last one of the page before.
        """

    async def list_brief(
        self, entity_type: str, *, after: tuple[str, str] | None = None, limit: int
    ) -> Sequence[Entity]:
        """Entities of all projects without their documents, by id and project; `after` is the last id and project."""

    async def list_names(self, entity_type: str, *, project: str) -> Sequence[str]:
        """The names of a project's entities of one type, distinct and sorted."""

    async def list_labels(self, project: str, *, containing: str = "", limit: int = 1000) -> Sequence[str]:
        """The labels of a project's entities and runs, distinct and sorted."""

    async def replace(self, entity: Entity, *, expected_revision: int | None = None) -> Entity:
        """Write it with the next revision. Raises `Stale` if it is gone or not at the expected revision."""

    async def delete(self, entity_type: str, entity_id: str, *, project: str) -> bool:
        """Returns whether there was one. The next older version of its name becomes the latest."""

    async def delete_content(self, project: str, *, limit: int) -> int:
        """Delete entities and secret values of a project that is DELETING, about `limit` rows; returns how many.

        Whatever depends on them goes too. Neither the project itself nor its runs are deleted.
        """

    async def delete_project(self, project: str) -> None:
        """Delete a project and all that is left in it. The caller holds the project's lock.

        Raises `Stale` if the project still has runs: a run is deleted after its log, by `Runs.delete`.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceUse:
    """How much a place is used."""

    place: str
    runs: int
    unsettled: int
    """Runs that have not ended, or that were not cleaned up after their end."""
    volumes: int = 0
    projects: int = 0
    """Projects that were prepared there; a deleted one waits for the place."""
    replicas: int
    """Live servers that serve it."""


class Runs(Protocol):
    """Runs, and the work queue that they form."""

    async def add(self, run: Run, transitions: Sequence[Transition], *, due_in: timedelta | None = None) -> Run:
        """Add a run with its first transitions; returns it as it is stored. `due_in` is on the database's clock.

        Raises `Duplicate` if its project has a run of that id.
        """

    async def find(self, run_id: str, *, project: str) -> Run | None:
        """By id, which is unique in its project."""

    async def find_by_uid(self, run_uid: str) -> Run | None:
        """By uid, in whichever project."""

    async def find_page(self, query: Query) -> Page:
        """A page of runs; the `type` of the query is `run`."""

    async def find_keys(self, query: Query) -> KeyPage:
        """The keys of such a page. `most_bytes` has no effect."""

    async def list_summaries(self, ids: Sequence[str], *, project: str) -> Sequence[Unparsed]:
        """Those runs of a project that exist, in any order, with metadata but no other document."""

    async def list_running(
        self, *, project: str | None = None, user: str | None = None, limit: int
    ) -> tuple[Sequence[Run], int]:
        """RUNNING runs that have an anchor, without documents, and how many there are in all.

        The newest of a project, or the last changed of all projects; with `user` only theirs.
        """

    async def list_changed(
        self, *, project: str, since: datetime, after: tuple[datetime, str] | None = None, limit: int
    ) -> Sequence[Run]:
        """Runs updated since then, in the order of update time and id, without their documents.

        `after` is the update time and id of the last one of the page before.
        """

    async def list_ids(
        self, *, project: str, task: str | None = None, is_without_deleting: bool = False
    ) -> Sequence[str]:
        """The ids of the runs of a project, or of one of its tasks (by reference), sorted.

        With `is_without_deleting` only of those that are not DELETING.
        """

    async def list_mounting(
        self, *, project: str, since: datetime | None = None, after: str = "", limit: int
    ) -> Sequence[MountingRun]:
        """Runs of a project with claims of any kind that have not ended or are STOPPED, by uid.

        With `since` only those that were updated since then; `after` is the last uid of the page before.
        """

    async def list_transitions(self, run_uid: str, *, after: int = 0, limit: int | None = None) -> Sequence[Transition]:
        """The transitions of a run whose sequence is greater, in order; with `limit` the first ones."""

    async def count_states(self) -> Mapping[str, int]:
        """The number of runs in each state."""

    async def find_newest_observation(self, place: str) -> tuple[int, int]:
        """The largest pair of epoch and version that was observed at a place; (0, 0) if nothing was."""

    async def list_histories(
        self, run_uids: Sequence[str], *, since: datetime | None = None
    ) -> Mapping[str, Sequence[Transition]]:
        """The transitions of several runs, in order, by uid; with `since` only those made since then.

        Runs without any are left out.
        """

    async def list_brief_histories(self, run_uids: Sequence[str]) -> Mapping[str, Sequence[Transition]]:
        """As much of that as lists show: the `LISTED_TRANSITIONS` newest, with messages cut."""

    async def update(
        self,
        before: Run,
        after: Run,
        *,
        transitions: Sequence[Transition] = (),
        lease: Lease | None = None,
        is_lease_ended: bool = False,
        due_in: DueIn = UNCHANGED,
    ) -> Run:
        """Write the fields that differ and append the transitions; returns the run as it is stored now.

        Raises `Stale` if the run is gone or is not at the revision of `before` (optimistic concurrency), or if the
        lease is not the row's or has expired by the database's clock. `before` may be a run without some of its
        documents; those must be the same in both. The revision grows if a field or the history changes. A call that
        changes nothing only checks the revision and the lease, and locks the row.

        `is_lease_ended` ends the lease of the caller in the same statement. `due_in` is relative to the database's
        clock. It never postpones a wake-up that nobody has claimed yet: one by `wake`, or one by a write without a
        lease while another holds the lease.
        """

    async def update_many(self, updates: Sequence[RunUpdate]) -> Sequence[Run]:
        """The same for many runs that `lock_observed` returned in this unit of work; neither revisions nor leases are
        checked. In few statements: at most two for each set of fields that differ.
        """

    async def delete(self, run_uids: Sequence[str]) -> Sequence[str]:
        """Delete rows and leave a tombstone for each; returns the uids that existed. Delete the logs first."""

    async def has_tombstone(self, run_id: str, *, project: str) -> bool:
        """Whether the project once had a run of that id, and has none now."""

    async def expire(self, *, ended_before: datetime, at: datetime, limit: int) -> Sequence[RunKey]:
        """Mark runs that ended before that time as DELETING, for `Reason.RETENTION_EXPIRED`; returns them.

        Those with a place may have objects in an engine: they are due now, and the reconcile loop deletes them.

        Leaves out runs that are leased, or that the reconcile loop is still to look at.
        """

    async def list_expired(self, *, limit: int) -> Sequence[RunKey]:
        """Runs without a place that `expire` has marked and nobody has deleted yet."""

    async def list_unswept(self, *, deleted_before: datetime, limit: int) -> Sequence[str]:
        """The uids of deleted runs whose log was not deleted again after the row; oldest first."""

    async def mark_swept(self, run_uids: Sequence[str]) -> None:
        """Note that their logs were deleted again."""

    async def claim_due(
        self,
        *,
        owner: str,
        limits: Mapping[Lane, int],
        lease_for: timedelta,
        place: str | None = None,
        shard: tuple[int, int] = (0, 1),
    ) -> Sequence[tuple[Run, Lease]]:
        """Lease due runs that nobody has leased, up to the limit of each lane; by lane, then oldest first.

        No run is given to two callers, and rows that others have locked are skipped. Runs of the caller's place and of
        its shard (index and count), and those without a place, are claimed at once. Those of other shards only when
        they are overdue by `OVERDUE`: their own replica does not take them. Those of other places only when, besides,
        no live replica serves their place. A caller without a place leaves runs without one to live replicas with one.

        Stores the caller's place, with the next revision, in runs without one that an engine may be asked to start
        (lanes CREATE and WATCH). Runs that are to stop or have ended, and local runs, stay without one.
        """

    async def find_next_due(self) -> timedelta | None:
        """How long it takes until another run becomes due, of any lane or place; None if none will by time alone."""

    async def release(self, lease: Lease, *, due_in: timedelta | None) -> None:
        """End the lease and write nothing else. Does nothing if the lease is stale. `due_in` as for `update`."""

    async def renew_leases(self, owner: str, *, lease_for: timedelta) -> int:
        """Extend all leases of the owner that have not expired; returns how many. Rows that others have locked are
        skipped.
        """

    async def end_leases(self, owner: str | None) -> int:
        """End all leases of the owner, or of everybody if None; returns how many. Those runs stay due."""

    async def wake(self, run_uids: Sequence[str]) -> Sequence[str]:
        """Make runs due now, even leased ones; returns their uids. Nothing else about them changes, nor does their
        revision. Does not wait: runs that others have locked are left out, and so are runs that are gone
        (`list_existing` tells them apart).
        """

    async def wake_waiting(self, place: str) -> int:
        """Make runs due now that an engine at that place can go on with; returns how many.

        Those are of that place or without one, not local and not settled; and they are to be created, stopped, deleted
        or settled. Runs in lane WATCH are left to the engine's own reports.
        """

    async def wake_misplaced(self, place: str | None, *, limit: int) -> int:
        """Make runs due that are watched at another place which no live replica serves; returns how many.

        The caller's place is not another one. Runs that say so already (`Reason.PLACE_OTHER`) are left out. They are
        overdue by `OVERDUE`, so that any replica may claim them.
        """

    async def lock_observed(self, run_uids: Sequence[str]) -> Sequence[Run]:
        """Lock those runs until the end of the unit of work and read them; all documents but `status` are left empty.

        Does not wait: runs that others have locked are left out, and so are runs that are gone.
        """

    async def list_existing(self, run_uids: Sequence[str]) -> Sequence[str]:
        """Those of the uids that are of a run, locked or not."""

    async def list_active(self, place: str, *, after: str = "", limit: int) -> Sequence[Run]:
        """Runs of that place that are not settled yet, without documents, by uid; `after` is the last uid before."""

    async def list_placed(self, place: str, *, after: str = "", limit: int) -> Sequence[str]:
        """The uids of all runs of that place, settled or not, sorted; `after` is the last uid before."""

    async def list_without_documents(self, run_uids: Sequence[str]) -> Sequence[Run]:
        """Those runs that exist, locked or not; all documents are left empty."""

    async def list_buried(self, run_uids: Sequence[str]) -> Sequence[str]:
        """Those of the uids that have a tombstone."""

    async def list_places(self) -> Sequence[PlaceUse]:
        """The places that runs have or live replicas serve, by name."""


class Secrets(Protocol):
    """Encrypted values of secrets by project and name. The vault encrypts them."""

    async def put(self, value: SealedValue) -> None:
        """Store it as the newest version."""

    async def find(self, project: str, name: str) -> SealedValue | None:
        """The newest version."""

    async def delete(self, project: str, name: str) -> None:
        """All versions."""

    async def list_sealed_by(self, key_id: str, *, limit: int) -> Sequence[SealedValue]:
        """Values whose data key is wrapped by that key, for key rotation."""

    async def rewrap(self, value: SealedValue) -> None:
        """Replace the same version by one that is wrapped by another key."""


class Revisions(Protocol):
    """Profiles and policies. Every revision is kept, with its author and time."""

    async def put(self, kind: Literal["profile", "policy"], name: str, document: Json | None, *, user: str) -> Revision:
        """Add a revision. A document of None is a deletion."""

    async def find(
        self, kind: Literal["profile", "policy"], name: str, *, revision: int | None = None
    ) -> Revision | None:
        """The newest revision, or the given one."""

    async def list_current(self, *, kind: Literal["profile", "policy"] | None = None) -> Sequence[Revision]:
        """The newest revision of each name, without deleted ones."""

    async def list_history(self, kind: Literal["profile", "policy"], name: str) -> Sequence[Revision]:
        """All revisions, newest first."""

    async def count(self) -> int:
        """How many revisions there are; every change and deletion adds one."""


class Accounts(Protocol):
    """Users, their tokens, and their roles in projects."""

    async def put(self, account: Account) -> None:
        """Create or replace by name."""

    async def find(self, name: str) -> Account | None:
        """By name."""

    async def list_accounts(self) -> Sequence[Account]:
        """All accounts, by name."""

    async def delete(self, name: str) -> None:
        """Delete the account with its tokens and shares."""

    async def put_token(self, token: Token) -> None:
        """Create or replace by id."""

    async def find_token(self, token_hash: str) -> Token | None:
        """By the hash of its text, even if revoked or expired."""

    async def list_tokens(self, user: str) -> Sequence[Token]:
        """A user's tokens, newest first."""

    async def use_refresh_token(self, token_hash: str) -> Token | None:
        """Use up a refresh token: the first caller gets it, later ones get None."""

    async def delete_token(self, token_id: str, *, user: str) -> bool:
        """Returns whether there was one."""

    async def put_share(self, share: Share) -> None:
        """Create or replace by project and user."""

    async def list_shares(self, *, project: str | None = None, user: str | None = None) -> Sequence[Share]:
        """The shares of a project, or of a user."""

    async def delete_share(self, share_id: str, *, project: str) -> bool:
        """Returns whether there was one."""


class Audit(Protocol):
    """The audit log. Entries are added and read; only retention deletes old ones."""

    async def add(self, entry: AuditEntry) -> None:
        """Add an entry in the unit of work of the act itself."""

    async def add_many(self, entries: Sequence[AuditEntry]) -> None:
        """The same for several, in their order."""

    async def list_entries(
        self, chosen: AuditFilter = EVERY_ENTRY, *, limit: int = 100
    ) -> Sequence[tuple[int, AuditEntry]]:
        """Entries with their sequence numbers, newest first."""

    async def list_sizes(self, chosen: AuditFilter = EVERY_ENTRY, *, limit: int = 100) -> Sequence[int]:
        """The bytes of the details of the same entries."""

    async def delete_before(self, written_before: datetime, *, limit: int) -> int:
        """Delete entries that are older, at most `limit` of them, oldest first; returns how many."""


class Metrics(Protocol):
    """Named numbers and series of an entity or run."""

    async def put(
        self, entity_type: str, entity_id: str, name: str, value: float | list[float], *, project: str
    ) -> None:
        """Create or replace."""

    async def measure(self, entity_type: str, entity_id: str, *, project: str) -> tuple[int, int]:
        """How many metrics an entity or run has, and their size in bytes."""

    async def list_values(self, entity_type: str, entity_id: str, *, project: str) -> Mapping[str, float | list[float]]:
        """All metrics of an entity or run."""


class Firings(Protocol):
    """Occasions on which triggers fired. Each occasion is used once (deduplication across replicas)."""

    async def use(self, trigger_id: str, occasion: str, *, project: str) -> bool:
        """Use an occasion; returns whether this caller is the first."""

    async def is_used(self, trigger_id: str, occasion: str, *, project: str) -> bool:
        """Whether an occasion was used."""

    async def find_last(self, trigger_id: str, *, project: str) -> str | None:
        """The occasion that was used last."""

    async def count(self, trigger_id: str, *, project: str) -> int:
        """How many occasions were used."""


class Replicas(Protocol):
    """The processes that share the database. Each has a heartbeat on the database's clock."""

    async def beat(self, owner: str, place: str | None, lasting: timedelta) -> Sequence[str]:
        """Note that the owner lives at least that long from now; deletes the dead.

        Returns the live owners of that place, sorted, this one included: its index and their number are its shard.
        """

    async def bury_others(self, owner: str) -> None:
        """Forget everybody but the owner, who knows that nobody else can live. Idempotent."""

    async def leave(self, owner: str) -> None:
        """Forget the owner: its share goes to the others at once. Idempotent."""


class UnitOfWork(Protocol):
    """One transaction. Leaving it without `commit` rolls back."""

    entities: Entities
    runs: Runs
    secrets: Secrets
    revisions: Revisions
    accounts: Accounts
    audit: Audit
    metrics: Metrics
    files: Files
    firings: Firings
    replicas: Replicas

    async def commit(self, *, meanwhile: Callable[[], None] | None = None) -> None:
        """Commit. Once this returns, the writes survive a crash.

        `meanwhile` is called once the commit has begun, for work that is done while the database waits for the disk. It
        is not called if nothing could be begun.
        """

    async def read_clock(self) -> datetime:
        """The database's clock, on which leases expire."""

    async def lock(self, name: str) -> None:
        """Take an exclusive lock of that name until the end of this unit of work; waits for all other holders."""

    async def lock_shared(self, name: str) -> None:
        """Take a shared lock of that name until the end of this unit of work; waits for an exclusive holder only."""

    async def get_meta(self, name: str) -> str | None:
        """A value of the installation: `installation`, `epoch`, `sweeper`, `sweep:PLACE`."""

    async def put_meta(self, name: str, value: str) -> None:
        """Create or replace."""


class Store(Protocol):
    """Persistence of everything but log bytes."""

    @property
    def is_shared(self) -> bool:
        """Whether other processes may use the database at the same time."""

    async def find_free_bytes(self) -> int | None:
        """What the disk of the database has left for this process; None if the database is behind a network.

        Raises `Unavailable` if the disk cannot be asked.
        """

    def begin(self, *, is_read_only: bool = False, is_urgent: bool = False) -> AbstractAsyncContextManager[UnitOfWork]:
        """Begin a unit of work. A read-only one does not wait for writers, an urgent one goes before others."""

    def listen(self) -> AsyncIterator[Sequence[str]]:
        """Batches of uids of runs that OTHER processes changed or deleted; each comes with their commit.

        Only hints. An empty batch says that some may have been missed: it comes first, when the connection was lost and
        made anew, and when the reader did not keep up. Never ends and never raises; on a database with a single process
        it waits for ever. Takes no connection from units of work.
        """

    async def close(self) -> None:
        """Close all connections. Idempotent."""


class Clock(Protocol):
    """The current time; tests replace it."""

    def now(self) -> datetime:
        """The current time, aware and in UTC."""
