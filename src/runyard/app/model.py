"""The data of the application: entities, runs, their history, accounts. Plain values; adapters translate them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from runyard.domain.effective_document import read_effective, upgrade_provenance
from runyard.domain.effective_spec import EffectiveSpec
from runyard.domain.lifecycle import State
from runyard.domain.outcomes import Desired, Lane, choose_lane

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who makes a request. `run_id` and `run_uid` are set for the token of a run, which has few rights."""

    name: str
    is_admin: bool = False
    run_id: str | None = None
    run_uid: str | None = None
    project: str | None = None
    """The only project that a run's token may use."""
    scopes: frozenset[str] | None = None
    """The scopes that a personal token is limited to; None: everything its user may do."""
    via: Literal["open", "password", "token", "jwt", "run", "system"] = "open"
    address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """Anything that is stored by type, project and id: function, task, secret, artifact, trigger, …, project."""

    type: str
    project: str
    kind: str
    name: str
    id: str
    user: str
    created_at: datetime
    updated_at: datetime
    updated_by: str
    state: str = "CREATED"
    metadata: Json = field(default_factory=dict)
    spec: Json = field(default_factory=dict)
    status: Json = field(default_factory=dict)
    """Without the state, which is a field of its own."""
    extensions: tuple[Json, ...] = ()
    revision: int = 1
    """Incremented by every write; the ETag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One change of a run's state."""

    sequence: int
    state: State
    at: datetime
    actor: str
    reason: str | None = None
    """A code from `domain.reasons`: dotted and stable, such as `user.stop`."""
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Entity):
    """A run: an entity that is also an item of the work queue. Only `app` writes it.

    The client chooses the `id`, which is unique in its project. A deleted run's id may be used again.
    """

    uid: str
    """Random, set by the server as in Kubernetes: no two runs ever have the same. Tokens and logs belong to it."""
    request: Json
    """What the client sent, in canonical form; `request_hash` is its hash."""
    request_hash: str
    effective: Json | None = None
    """As `domain.effective_document` writes it; read it by `find_effective`."""
    provenance: tuple[Json, ...] = ()
    warnings: tuple[Json, ...] = ()
    profile_revision: int | None = None
    policy_revision: int | None = None
    task: str | None = None
    function: str | None = None
    workflow: str | None = None
    is_local: bool = False
    desired: Desired = "run"
    desired_generation: int = 1
    observed_generation: int = 0
    observed_epoch: int = 0
    observed_version: int = 0
    """The newest observation that was written, as a pair with its epoch."""
    due_at: datetime | None = None
    """When the reconcile loop looks at it next, on the database's clock; None: only when something happens.

    Only the store sets it, from `due_in`.
    """
    place: str | None = None
    """The engine and the cluster that may have objects of the run. None: nothing exists for it anywhere."""
    anchor_uid: str | None = None
    reason: str | None = None
    message: str | None = None
    last_sequence: int = 0
    """The sequence of its last transition. The store counts it."""
    settled_at: datetime | None = None
    """When everything that follows the end was done: logs drained, objects released."""
    is_log_complete: bool = False

    @property
    def lane(self) -> Lane:
        """Its lane of the work queue."""
        return choose_lane(State(self.state), desired=self.desired, has_anchor=self.anchor_uid is not None)

    def find_effective(self) -> EffectiveSpec | None:
        """Its effective spec; None for a run that its client executes. Raises `UnknownSchema`."""
        return None if self.effective is None else read_effective(self.effective)

    @property
    def key(self) -> "RunKey":
        """Which run it is."""
        return RunKey(uid=self.uid, project=self.project, id=self.id, place=self.place)

    def list_provenance(self) -> tuple[Json, ...]:
        """Its provenance, with the paths of the current schema version."""
        return upgrade_provenance(self.provenance, self.effective)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunKey:
    """Which run: enough to delete its log and its row."""

    uid: str
    project: str
    id: str
    place: str | None = None
    """Where objects of it may exist: they are removed first, by the reconcile loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to write a run until a time on the database's clock. A write under a stale lease fails."""

    run_uid: str
    token: str
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """Who did what to which entity, when, from which address, with which result."""

    at: datetime
    actor: str
    action: str
    project: str | None
    type: str | None
    id: str | None
    result: str
    address: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which entries of the audit are listed; a field that is None chooses all."""

    project: str | None = None
    actor: str | None = None
    action: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    before: int | None = None
    """Only entries with a smaller sequence number."""


EVERY_ENTRY = AuditFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedValue:
    """A secret's value as it is stored: encrypted (envelope encryption)."""

    project: str
    name: str
    version: int
    key_id: str
    """The key that wraps the data key."""
    wrapped_key: bytes
    ciphertext: bytes


TYPES_WITH_BYTES = ("artifact", "dataitem", "model")
"""The types of entities whose files the server can store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file of an entity whose bytes the server stores, as the blob of that name."""

    type: str
    project: str
    id: str
    path: str
    """Within the entity: relative, with `/`."""
    blob: str
    """Random, never used again: a reader of a replaced file never gets bytes of another."""
    size: int
    sha256: str
    content_type: str
    at: datetime
    user: str

    @property
    def tag(self) -> str:
        """Its ETag: the digest of its bytes, in quotes."""
        return f'"{self.sha256}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """An upload in progress: room is reserved for its blob."""

    type: str
    project: str
    id: str
    blob: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumableUpload:
    """An upload that a client sends in several requests. Its blob grows until it is complete."""

    type: str
    project: str
    id: str
    blob: str
    """Also the id of the upload."""
    entity_created_at: datetime
    """Of the entity that it was begun for: not of another one that gets its id later."""
    path: str
    size: int
    sha256: str | None = None
    """The digest that the bytes must have; None if the client states it at the end."""
    content_type: str
    is_new: bool = False
    """Whether it may only create the file, not replace it."""
    replaces: str | None = None
    """The digest that the replaced file must have."""
    user: str
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FileUsage:
    """How many files there are, and their size; uploads in progress are included."""

    number: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One revision of a profile or of the policy. A deletion is a revision without a document."""

    kind: Literal["profile", "policy"]
    name: str
    revision: int
    document: Json | None
    user: str
    at: datetime


RuleRevisions = tuple[int | None, Mapping[str, int]]
"""The current revision of the policy, and of each profile by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A user who can sign in."""

    name: str
    password_hash: str | None = None
    is_admin: bool = False
    is_disabled: bool = False
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A personal access token or a refresh token. Only the hash of its text is stored."""

    id: str
    user: str
    kind: Literal["personal", "refresh"]
    hash: str
    name: str = ""
    scopes: tuple[str, ...] = ()
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A user's role in a project; the user `*` is everyone."""

    id: str
    project: str
    user: str
    role: Literal["owner", "editor", "viewer"]
