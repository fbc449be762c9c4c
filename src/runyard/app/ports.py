"""What the application needs of the world, as Protocols. Contract tests hold every implementation to the comments.

Times are aware and UTC. Everything that is written goes through a `UnitOfWork`: nothing is kept unless `commit`
returned, and once it returned nothing is lost.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Annotated, Literal, Protocol, get_origin, get_type_hints

from runyard.app.model import (
    Account,
    AuditEntry,
    Entity,
    Json,
    Lease,
    Revision,
    Run,
    SealedValue,
    Share,
    Token,
    Transition,
)


class Duplicate(Exception):
    """An entity of that type and id, or of that unique name, exists already; nothing was written."""


class Stale(Exception):
    """What was to be written has changed since it was read, or the lease has passed on; nothing was written."""


class Unavailable(Exception):
    """Where things are kept cannot be reached now; nothing was written."""


class Unopenable(Exception):
    """A sealed value cannot be opened: it was changed, or its key is not known. Vaults raise subclasses."""


class Unkeepable(Exception):
    """A text that not every database can keep in a column that is looked up by. The message never holds the text."""


Span = tuple[datetime | None, datetime | None]


class FilterKind(Enum):
    """How a list filter is compared. The store has one condition per kind."""

    EXACT = "exact"
    NAME = "name"
    """Exact; for projects, contained."""
    SEARCH = "search"
    """Contained in id or name, in any case; of runs also in function or workflow."""
    REFERENCE = "reference"
    """A reference with `:id` is exact; without, every version of the function or workflow."""
    LABELS = "labels"
    """All of them are in `metadata.labels`."""
    SPAN = "span"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A list of entities of one type. A filter that has its default, None or no labels, does not filter.

    A field annotated with a `FilterKind` is a list filter. This is the only place that declares it: the conditions and
    the totals of the store, and the query parameters of the API, are made from `LIST_FILTERS`.
    """

    type: str
    project: str | None = None
    visible_projects: frozenset[str] | None = None
    """For the list of projects: those that may be seen; None is all."""
    visible_to: str | None = None
    """Whose projects may be seen beside those, because they made them."""
    q: Annotated[str | None, FilterKind.SEARCH] = None
    name: Annotated[str | None, FilterKind.NAME] = None
    kind: Annotated[str | None, FilterKind.EXACT] = None
    user: Annotated[str | None, FilterKind.EXACT] = None
    state: Annotated[str | None, FilterKind.EXACT] = None
    function: Annotated[str | None, FilterKind.REFERENCE] = None
    workflow: Annotated[str | None, FilterKind.REFERENCE] = None
    task: Annotated[str | None, FilterKind.EXACT] = None
    action: Annotated[str | None, FilterKind.EXACT] = None
    labels: Annotated[tuple[str, ...], FilterKind.LABELS] = ()
    created: Annotated[Span | None, FilterKind.SPAN] = None
    updated: Annotated[Span | None, FilterKind.SPAN] = None
    versions: Literal["latest", "all"] = "latest"
    """Of types with versions: the newest of each name, or all."""
    sort: tuple[tuple[str, Literal["asc", "desc"]], ...] = ()
    """By fields of `SORT_FIELDS`. Default: created desc; ties by id."""
    page: int = 0
    size: int = 25
    is_brief: bool = False
    """Of runs: leave request, effective spec and provenance empty, which are most of a run and in no list."""

    def find_filters(self) -> Sequence[tuple[str, FilterKind]]:
        """The filters that are set."""
        return [(name, kind) for name, kind in LIST_FILTERS.items() if getattr(self, name) not in (None, ())]


LIST_FILTERS: Mapping[str, FilterKind] = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(Query, include_extras=True).items()
    if get_origin(hint) is Annotated
}
"""Every filter of a list, by the name of its field in `Query`."""
SORT_FIELDS = ("created", "updated", "name", "kind", "project", "state", "id", "user")


@dataclass(frozen=True, slots=True)
class Page:
    """One page, and how many there are in all."""

    content: tuple[Entity, ...]
    total: int


class EntityLookup(Protocol):
    """Finds single entities; enough to follow the references of a run."""

    async def find(self, entity_type: str, entity_id: str, *, project: str | None = None) -> Entity | None:
        """By id; None as well where it belongs to another project."""

    async def find_latest(self, entity_type: str, *, project: str, name: str) -> Entity | None:
        """The newest of that name."""


class Entities(EntityLookup, Protocol):
    """Everything but runs, projects included (type `project`, whose id is its name)."""

    async def add(self, entity: Entity) -> None:
        """Raises `Duplicate`: same type and id; of tasks same project, function and kind; of secrets same name."""

    async def find_page(self, query: Query) -> Page:
        """A page, complete entities."""

    async def list_names(self, entity_type: str, *, project: str) -> Sequence[str]:
        """The names of a project's entities of a type, each once, sorted."""

    async def list_labels(self, project: str, *, containing: str = "", limit: int = 1000) -> Sequence[str]:
        """The labels in a project, of entities and runs, each once, sorted."""

    async def replace(self, entity: Entity, *, expected_revision: int | None = None) -> Entity:
        """Write it with the next revision. Raises `Stale` if it is gone or not at the expected one."""

    async def delete(self, entity_type: str, entity_id: str, *, project: str) -> bool:
        """Whether there was one. An older version of its name becomes the latest."""

    async def delete_project(self, project: str) -> None:
        """Everything in it, runs and secret values too, and the project. The caller has its lock."""


class Runs(Protocol):
    """Runs, which are also the queue."""

    async def add(self, run: Run, transitions: Sequence[Transition]) -> None:
        """The run with its first transitions. Raises `Duplicate`."""

    async def find(self, run_id: str, *, project: str | None = None) -> Run | None:
        """By id; None as well where it belongs to another project."""

    async def find_page(self, query: Query) -> Page:
        """A page; `type` of the query is `run`."""

    async def list_ids(self, *, project: str, task: str | None = None) -> Sequence[str]:
        """The ids of a project's runs, or of those of one task (by its reference), in order."""

    async def list_transitions(self, run_id: str, *, after: int = 0) -> Sequence[Transition]:
        """In order, those with a greater sequence."""

    async def count_states(self) -> Mapping[str, int]:
        """How many runs there are in each state."""

    async def list_histories(self, run_ids: Sequence[str]) -> Mapping[str, Sequence[Transition]]:
        """The transitions of several runs, in order; a run without any is not in it."""

    async def replace(
        self,
        run: Run,
        *,
        transitions: Sequence[Transition] = (),
        lease: Lease | None = None,
        expected_revision: int | None = None,
    ) -> Run:
        """Write it with the next revision and the new transitions.

        Raises `Stale` if it is gone, not at the expected revision, or the lease is not the row's or has ended by the
        database's clock.
        """

    async def delete(self, run_id: str) -> None:
        """The row goes, a tombstone stays."""

    async def has_tombstone(self, run_id: str) -> bool:
        """Whether we knew that run and ended it."""

    async def claim_due(
        self, *, owner: str, limit: int, lease_for: timedelta, shard: tuple[int, int] = (0, 1)
    ) -> Sequence[tuple[Run, Lease]]:
        """Runs that are due and not leased, oldest first, leased to the caller. Two callers never get the same."""

    async def renew(self, lease: Lease, *, lease_for: timedelta) -> Lease:
        """Raises `Stale` if it has passed on."""

    async def release(self, lease: Lease, *, due_at: datetime | None) -> None:
        """Give it back; a stale lease does nothing."""

    async def nudge(self, run_ids: Sequence[str]) -> None:
        """They are due now, whoever holds them; nothing else about them changes, their revision neither."""


class Secrets(Protocol):
    """Sealed values by project and name; the vault seals, the store keeps."""

    async def put(self, value: SealedValue) -> None:
        """Store it as the newest version."""

    async def find(self, project: str, name: str) -> SealedValue | None:
        """The newest version."""

    async def delete(self, project: str, name: str) -> None:
        """All versions."""

    async def list_sealed_by(self, key_id: str, *, limit: int) -> Sequence[SealedValue]:
        """For rotation: values that are wrapped by that key."""

    async def rewrap(self, value: SealedValue) -> None:
        """Replace the same version, sealed anew."""


class Revisions(Protocol):
    """Profiles and policies: every revision is kept, who wrote it and when."""

    async def put(self, kind: Literal["profile", "policy"], name: str, document: Json | None, *, user: str) -> Revision:
        """The next revision; None deletes (and is a revision too)."""

    async def find(
        self, kind: Literal["profile", "policy"], name: str, *, revision: int | None = None
    ) -> Revision | None:
        """The newest, or that one."""

    async def list_current(self, *, kind: Literal["profile", "policy"] | None = None) -> Sequence[Revision]:
        """The newest of each name that is not deleted."""

    async def list_history(self, kind: Literal["profile", "policy"], name: str) -> Sequence[Revision]:
        """All, newest first."""


class Accounts(Protocol):
    """Users, their tokens, and who may do what in a project."""

    async def put(self, account: Account) -> None:
        """Create or replace by name."""

    async def find(self, name: str) -> Account | None:
        """By name."""

    async def list_accounts(self) -> Sequence[Account]:
        """All, by name."""

    async def delete(self, name: str) -> None:
        """With the tokens and shares."""

    async def put_token(self, token: Token) -> None:
        """Create or replace by id."""

    async def find_token(self, token_hash: str) -> Token | None:
        """By the hash of its text; revoked and expired ones too."""

    async def list_tokens(self, user: str) -> Sequence[Token]:
        """A user's, newest first."""

    async def use_refresh_token(self, token_hash: str) -> Token | None:
        """Take a refresh token: the first caller gets it, every later one None."""

    async def delete_token(self, token_id: str, *, user: str) -> bool:
        """Whether there was one."""

    async def put_share(self, share: Share) -> None:
        """Create or replace by project and user."""

    async def list_shares(self, *, project: str | None = None, user: str | None = None) -> Sequence[Share]:
        """By project or by user."""

    async def delete_share(self, share_id: str, *, project: str) -> bool:
        """Whether there was one."""


class Audit(Protocol):
    """Append-only."""

    async def add(self, entry: AuditEntry) -> None:
        """Part of the unit of work it tells of."""

    async def list_entries(
        self, *, project: str | None = None, actor: str | None = None, before: int | None = None, limit: int = 100
    ) -> Sequence[tuple[int, AuditEntry]]:
        """Newest first, with their sequence."""


class Metrics(Protocol):
    """Named numbers and series of an entity."""

    async def put(self, entity_type: str, entity_id: str, name: str, value: float | list[float]) -> None:
        """Create or replace."""

    async def list_values(self, entity_type: str, entity_id: str) -> Mapping[str, float | list[float]]:
        """All of an entity."""


class Firings(Protocol):
    """Which occasions of triggers were used: an occasion is used once, whoever asks first."""

    async def use(self, trigger_id: str, occasion: str) -> bool:
        """Whether this caller is the first."""

    async def find_last(self, trigger_id: str) -> str | None:
        """The newest occasion used."""


class UnitOfWork(Protocol):
    """One transaction. Left without `commit`, nothing of it is kept."""

    entities: Entities
    runs: Runs
    secrets: Secrets
    revisions: Revisions
    accounts: Accounts
    audit: Audit
    metrics: Metrics
    firings: Firings

    async def commit(self) -> None:
        """Keep everything; once it returns, not even a crash loses it."""

    async def read_clock(self) -> datetime:
        """The database's clock, by which leases run."""

    async def lock(self, name: str) -> None:
        """Take an exclusive lock of that name until the end of this unit of work; waits for all other holders."""

    async def lock_shared(self, name: str) -> None:
        """Take a shared lock of that name until the end of this unit of work; waits for an exclusive holder only."""

    async def get_meta(self, name: str) -> str | None:
        """A fact about the installation: `installation`, `epoch`, signing keys …"""

    async def put_meta(self, name: str, value: str) -> None:
        """Create or replace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedRows:
    """What `Store.prune` deleted. The logs of the runs are still there."""

    run_ids: tuple[str, ...] = ()
    audit_entries: int = 0


class Store(Protocol):
    """Where everything is kept."""

    def begin(self, *, is_read_only: bool = False) -> AbstractAsyncContextManager[UnitOfWork]:
        """A unit of work; for reads it need not wait for writers."""

    async def prune(self, now: datetime, *, runs_before: datetime | None, audit_before: datetime | None) -> PrunedRows:
        """Delete runs that ended, and audit entries written, before those times; None deletes nothing.

        Tombstones stay for the runs, and the audit says how many rows were deleted. Safe to call from several
        processes at once.
        """

    async def close(self) -> None:
        """Give connections back. Idempotent."""


class Vault(Protocol):
    """Seals values so that the store never sees them."""

    def seal(self, project: str, name: str, version: int, text: str) -> SealedValue:
        """Bound to project, name and version."""

    def open(self, value: SealedValue) -> str:
        """Raises `Unopenable` if anything was changed, or the key is not known."""


class RotatingVault(Vault, Protocol):
    """A vault with several keys. One is current and seals; the older ones only open."""

    @property
    def current_key_id(self) -> str:
        """The key that seals."""

    @property
    def old_key_ids(self) -> Sequence[str]:
        """The keys that only open."""

    def make_key(self) -> str:
        """Create a key and make it current; returns its id. Blocks."""

    def rewrap(self, value: SealedValue) -> SealedValue:
        """The same value, wrapped by the current key. Raises `Unopenable`."""


class Clock(Protocol):
    """Time, so that tests can make it."""

    def now(self) -> datetime:
        """Aware, UTC."""


@dataclass(frozen=True, slots=True)
class Stream:
    """One container's log of a run: `pod` tells attempts and replicas apart."""

    run_id: str
    pod: str
    container: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInfo:
    """What is stored of a stream: bytes `0 … size`, and when they were written."""

    stream: Stream
    size: int
    first_at: datetime | None
    last_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPiece:
    """Bytes of a stream from an offset on, or, where `gap` says why, a place where something could not be read."""

    offset: int
    at: datetime
    content: bytes = b""
    gap: str | None = None
    until: datetime | None = None
    """Of a gap: where its time span ends."""


class LogStore(Protocol):
    """Log bytes. They never share a writer with run state."""

    async def append(self, stream: Stream, content: bytes, *, offset: int, at: datetime) -> int:
        """Store bytes that begin at an offset and were written at that time; returns the stream's new size.

        What is stored already is not stored again, so that a writer may repeat itself; raises `ValueError` for an
        offset past the end: a hole is never made in silence.
        """

    async def mark_gap(self, stream: Stream, *, since: datetime, until: datetime, cause: str) -> None:
        """Record at the present end that something is missing there."""

    async def list_streams(self, run_id: str) -> Sequence[StreamInfo]:
        """In the order in which they began."""

    async def read(self, stream: Stream, *, offset: int = 0, limit: int = 1 << 20) -> Sequence[LogPiece]:
        """Pieces from that byte on, gaps among them, at most about `limit` bytes; empty at the end."""

    async def find_since(self, stream: Stream, since: datetime) -> int:
        """The offset of the first stored bytes that were written at or after that time; the size if there are none."""

    async def find_tail(self, stream: Stream, lines: int) -> int:
        """The offset from which on there are that many lines (fewer, if there are not as many)."""

    async def delete(self, run_id: str) -> None:
        """Everything of a run."""

    async def prune(self, *, before: datetime) -> int:
        """Delete the streams whose last bytes are older; how many."""

    async def close(self) -> None:
        """Give back files and connections."""
