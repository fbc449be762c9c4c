"""The Engine port: what executes runs. Engines observe and act; they never write runs.

An engine knows a run by its **anchor**, the one object that a run begins with: held back at first, its name derived
from the run's uid, known by a UID of its own from then on. The life of a run, as the loops drive it:

1. `ensure_project`, `ensure_anchor`; the UID is committed; `release`.
2. `changes` reports what happens, as observations; `observe` asks where a report may be missing.
3. `list_log_sources` and `follow_log` give the output of its containers, which `app` stores.
4. `stop` on request or at a deadline.
5. After the end, once the log is stored: `settle`. `remove` when the run is deleted.

Any call may be repeated, by several replicas, at any time, and after any crash. Every obligation is held to by
`tests/contract/engine`. What only some engines can do is a protocol of its own: `Interactive`, `Metered`,
`Defaulting`, `ImagePulling`, `NamedServices`, `Preparing`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from typing import Any, Literal, Protocol, runtime_checkable

from runyard.app.model import Json
from runyard.domain.admission import AdmittedObjects
from runyard.domain.effective_spec import EffectiveSpec
from runyard.domain.outcomes import Seen
from runyard.domain.resolve_inputs import AdminRules
from runyard.manifests.identity import PlatformInputs
from runyard.pods.snapshot import Snapshot
from runyard.spec.registries import RegistryCredential

STATUS_KEYS = ("pods", "service", "events")
"""The keys of a run's status that an observation may set."""
LARGEST_DETAILS_BYTES = 16 * 1024
"""How large the details of an observation may be, as JSON; an engine shortens them, the loop leaves larger ones out."""
LARGEST_DESCRIPTION_BYTES = 4 << 20
"""How large `describe` may answer, as JSON."""
LONGEST_REASON_BYTES = 200
"""How much of the reason of an observation or error is kept."""
LONGEST_MESSAGE_BYTES = 4096
"""How much of the message of an observation or error is kept."""
LONGEST_NAME_BYTES = 253
"""How much of the names of an ended container and its pod is kept."""
MOST_ENDS = 50
"""How many ended containers an observation may list, the newest last."""

LARGEST_MESSAGE_BYTES = 256 * 1024
"""How large one message of a session (exec, attach, port-forward) may be, in either direction."""
MOST_USAGES = 1000
"""How many containers `list_usage` may list."""


class EngineError(Exception):
    """A call failed. `code` is a run reason (`domain.reasons`); the message holds no value of a secret."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class EngineUnavailable(EngineError):
    """The call may succeed later: the run stays as it is, and the call is retried."""


class EngineFull(EngineUnavailable):
    """The place has no room for the run yet, such as a quota: the run is PENDING, and the call is retried.

    The message says how much is asked for and how much there is, and is shown as it is.
    """


class EngineRefusal(EngineError):
    """The call can never succeed: the engine refuses the run, and a retry would not help."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an engine acts. Absence in one place says nothing about another."""

    engine: str
    """`kubernetes`, `local` …"""
    uid: str
    """Of the cluster or installation. It does not change when the engine is restarted, moved or renamed."""

    def __str__(self) -> str:
        return f"{self.engine}/{self.uid}"


class Access(Protocol):
    """Secrets and token of a run, read when needed and stored nowhere."""

    async def read_secrets(self) -> Mapping[str, str]:
        """The values of the secrets that its spec names; raises `EngineRefusal` if one has none."""

    async def read_registries(self) -> Mapping[str, RegistryCredential]:
        """The credentials of private registries that the project has, by registry; `EngineRefusal` if unreadable."""

    async def issue_token(self) -> str:
        """A token for that run alone."""


class Admission(Protocol):
    """The last validator, with the policy and profile revisions that the run was resolved with."""

    async def admit(
        self,
        objects: Sequence[Mapping[str, Any]],
        *,
        unsent: Sequence[Mapping[str, Any]] = (),
        is_anchor: bool = False,
        kubernetes_version: str = "latest",
    ) -> AdmittedObjects:
        """Check objects that are sent together; raises `EngineRefusal` with every reason not to send them.

        What it returns is all that an engine may send: `AdmittedObjects` cannot be made in another way. `unsent` are
        objects of the run that are sent at another time: they are checked with the others and not returned.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A run as an engine gets it."""

    run_id: str
    """Unique in its project only, and an id may be used again."""
    run_uid: str
    project: str
    name: str
    kind: str
    user: str
    function: str | None = None
    task: str | None = None
    effective: EffectiveSpec
    created_at: datetime
    """When the run was submitted: of two runs, the later one is the newer."""
    generation: int
    """Counts changes of the desired state: a call of an older generation than the anchor has seen does nothing."""
    can_be_resumed: bool = True
    """Whether a service may be released again after it was stopped: not if it has failed, which is final."""
    access: Access = field(repr=False, compare=False)
    admission: Admission = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """An anchor that exists or has existed: enough to find it, to read it, and to remove it without the run's row."""

    run_uid: str
    run_id: str
    project: str
    action: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEnd:
    """How one instance of a container ended. A restarted container is another instance."""

    pod: str
    container: str
    """Empty: the whole pod ended, and how its containers ended is not known; they may never have started."""
    instance: int = 0
    exit_code: int | None = None
    signal: int | None = None
    is_out_of_memory: bool = False
    peak_bytes: int | None = None
    """The most memory that it used; None: not known. If it ran out of memory, it used at least that much."""
    reason: str | None = None
    """Why it ended, a run reason (`domain.reasons`); None: it ended well, or by a stop, or the engine does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What an engine observes of an anchor: small, whatever the run. `describe` has the rest."""

    run_uid: str
    uid: str
    seen: Seen
    epoch: int = 0
    """Grows when versions begin anew, as after the restore of an etcd. Never decreases at one place."""
    version: int = 0
    """Never decreases for one anchor in one epoch. Meaningless if the anchor is absent."""
    generation: int = 0
    """The newest generation that the anchor has obeyed. Meaningless if the anchor is absent."""
    reason: str | None = None
    message: str | None = None
    ends: tuple[ContainerEnd, ...] = ()
    """At most `MOST_ENDS`. Also of an anchor that is absent now, as far as the engine saw it end."""
    details: Json = field(default_factory=dict)
    """Some of `STATUS_KEYS`, each complete as far as the engine knows; at most `LARGEST_DETAILS_BYTES`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorList:
    """The anchors of this installation at the engine's place."""

    observations: Sequence[tuple[Anchor, Observation]]
    """They may be made when they are asked for. A slice leaves out what cannot be observed: it is shorter then."""
    is_complete: bool
    """False if a part could not be read: then absence from the list means nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSource:
    """The output of one instance of a container."""

    run_uid: str
    pod: str
    container: str
    instance: int = 0
    is_unseen: bool = False
    """Whether it stands for a pod that the engine never saw, and only knows to have been: its output is one gap.

    The engine does not know what was stored before it was opened. So the Core leaves out as many of these as it has
    stored pods that the engine does not list anymore.
    """
    since: datetime | None = field(default=None, compare=False)
    """No line is older, if the engine knows: where a gap begins when it knows nothing else of the output anymore."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """Output, in order and without overlap; `position` is where the next chunk begins."""

    content: bytes
    at: datetime
    position: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogGap:
    """Output that cannot be read anymore, and why: `rotated`, `pod deleted`, `node lost` …"""

    since: datetime
    until: datetime
    cause: str
    position: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptVolume:
    """A volume that lives longer than the runs that mount it. `claim` is unique in the project."""

    project: str
    claim: str
    volume_id: str
    size: str | None = None
    storage_class: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeState:
    """A kept volume as the engine finds it."""

    project: str
    claim: str
    volume_id: str | None
    """None: it carries no id of a volume of this installation."""
    phase: Literal["pending", "bound", "lost", "removing"]
    size: str | None = None
    """What it really has."""
    storage_class: str | None = None
    mounted_by: tuple[str, ...] = ()
    """Uids of the runs that have it mounted now."""
    message: str | None = None


class Engine(Protocol):
    """Executes runs. Raises `EngineUnavailable` and `EngineRefusal`; any other exception counts as the former."""

    @property
    def place(self) -> Place:
        """Where it acts; known before the first call, and the same for its whole life."""

    @property
    def platform(self) -> PlatformInputs:
        """What it gives every run: the server's address, a token, a launcher. Submit and admission decide by it."""

    async def find_anchor(self, assignment: Assignment) -> str | None:
        """The UID of the run's anchor, or None; asks the cluster itself, not a cache."""

    async def ensure_anchor(self, assignment: Assignment) -> str:
        """Create the run's anchor, held back, or find it by its name; concurrent calls create only one. Idempotent.

        An anchor of another run with the same id does not count: of an earlier one, or of one in another project.
        """

    async def release(self, assignment: Assignment, uid: str) -> None:
        """Start an anchor that is held back, with everything it needs, owned by it; or start it again after a stop.

        Changes only that UID: if it is absent, nothing is created. An anchor that has ended by itself is not restarted.
        Sends only what `assignment.admission` admitted.
        """

    async def observe(self, anchor: Anchor) -> Observation:
        """The current observation, possibly from a cache; `absent` only after asking the cluster itself."""

    async def describe(self, anchor: Anchor) -> Json:
        """The large view, for people: the objects of the run as they are now; at most `LARGEST_DESCRIPTION_BYTES`."""

    async def stop(self, assignment: Assignment, uid: str) -> None:
        """Begin to stop the run. Its anchor stays, and so does its output until it is read; one held back stays so."""

    async def settle(self, assignment: Assignment, uid: str) -> bool:
        """Clean up after the end of a run whose log is stored; returns whether all is done.

        Removes the values of secrets; asks for deletion after the spec's `ttl_seconds`. An anchor that never ran is
        removed with everything it owns. A stopped service keeps what `release` needs to start it again, its anchor too
        if it never ran. One that cannot be resumed is removed with everything it owns. An absent anchor is settled.
        """

    async def remove(self, anchor: Anchor) -> None:
        """Begin to remove the anchor of that UID and everything it owns, running or not."""

    async def list_anchors(self) -> AnchorList:
        """Every anchor of this installation, with its observation; asks the cluster itself, or a synced cache."""

    def changes(self) -> AsyncIterator[Sequence[Observation]]:
        """Observations as they change, in batches; of one run the newest only. Equal ones need not be repeated.

        Every change after the call is reported, absence too. What was before, `list_anchors` says.
        """

    async def list_log_sources(self, anchor: Anchor) -> Sequence[LogSource]:
        """The outputs that exist or have existed, as far as the engine knows; in the order in which they began."""

    def follow_log(self, source: LogSource, *, after: str | None = None) -> AsyncIterator[LogChunk | LogGap]:
        """The output after a position, from its beginning if None; ends when the instance has ended and all was read.

        A part that cannot be read is a gap. Raises `EngineUnavailable` if the rest may be readable later.
        """

    async def ensure_project(self, project: str, rules: AdminRules) -> None:
        """Prepare what runs of a project need (a namespace and its rules). Idempotent.

        Called again when policy or profiles have changed: what an engine enforces by itself follows `rules`.
        """

    async def remove_project(self, project: str) -> bool:
        """Remove what `ensure_project` made; returns whether it is gone. Never removes what it did not make."""

    async def ensure_volume(self, volume: KeptVolume) -> VolumeState:
        """Create a kept volume, or find it; never one of the same claim with another id: `EngineRefusal`."""

    async def remove_volume(self, volume: KeptVolume) -> bool:
        """Begin to remove a kept volume with its data; returns whether it is gone. Only that id."""

    async def list_volumes(self) -> Sequence[VolumeState]:
        """Every kept volume of this installation, and claims of projects that nobody knows (orphans), perhaps not all.

        A kept volume that is missing counts as lost: an engine that cannot list them all raises `EngineUnavailable`.
        """

    async def snapshot(self) -> Snapshot:
        """What the place has and what is used, for the explainer; possibly from a cache."""

    async def close(self) -> None:
        """Close connections. Runs continue."""


class ChannelId(IntEnum):
    """The first byte of a message, as in Kubernetes' subprotocol `v5.channel.k8s.io`."""

    STDIN = 0
    """Also both directions of a forwarded port."""
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    """The status at the end, as JSON: `{"status": "Success"}`, or `Failure` with a `message` and, for a command that
    ended with an error, the reason `NonZeroExitCode` and the exit code in `details.causes`."""
    RESIZE = 4
    """The size of the terminal, as JSON: `{"Width": 80, "Height": 24}`."""
    CLOSE = 255
    """Ends the channel whose number is the content (half-close): `b"\\x00"` is the end of stdin."""


class Channel(Protocol):
    """A two-way stream of messages to a container. `send` and `receive` are called concurrently, each by one task.

    If a call is cancelled, only `close` follows.
    """

    async def send(self, channel: ChannelId, content: bytes) -> None:
        """Send at most `LARGEST_MESSAGE_BYTES`; waits while the container does not read (back-pressure).

        Sends STDIN, RESIZE and CLOSE only. What the container cannot take anymore is dropped.
        """

    def receive(self) -> AsyncIterator[tuple[ChannelId, bytes]]:
        """STDOUT, STDERR and at last ERROR, at most `LARGEST_MESSAGE_BYTES` each, until the other side has ended.

        Reads only as fast as it is iterated (back-pressure). Raises `EngineUnavailable` if the connection breaks.
        """

    async def close(self) -> None:
        """Close the connection, wherever it is. Idempotent. A command that was started may go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a user asks for: which container, and how."""

    pod: str | None = None
    """None: the newest that runs."""
    container: str | None = None
    """None: the one that executes the run."""
    command: tuple[str, ...] = ()
    """Empty for `attach`."""
    has_stdin: bool = False
    is_tty: bool = False


@runtime_checkable
class Interactive(Protocol):
    """An engine into whose containers users can look. An anchor of that UID only; `EngineRefusal` if it is absent.

    A call that is cancelled, because it takes too long, leaves nothing open.
    """

    async def open_exec(self, anchor: Anchor, session: Session) -> Channel:
        """Start a command in a container. Raises `EngineRefusal` if there is none that runs."""

    async def open_attach(self, anchor: Anchor, session: Session) -> Channel:
        """Attach to the main process of a container. Raises `EngineRefusal` if there is none that runs."""

    async def open_port(self, anchor: Anchor, port: int, *, pod: str | None = None) -> Channel:
        """Connect to a TCP port of a pod: STDIN in both directions, and ERROR if the connection fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one container of a run uses."""

    at: datetime
    pod: str
    container: str
    cpu_cores: float | None = None
    memory_bytes: int | None = None


@runtime_checkable
class Metered(Protocol):
    """An engine that measures what runs use."""

    async def list_usage(self, anchor: Anchor) -> Sequence[Usage]:
        """One entry per container that runs now, at most `MOST_USAGES`; possibly some seconds old."""

    async def sum_disk_bytes(self, anchor: Anchor) -> int:
        """How large the run's own volumes are together, as far as the place says so; possibly some seconds old."""


ReadRegistries = Callable[[], Awaitable[Mapping[str, RegistryCredential]]]
"""Reads the registry credentials that a project has now; raises `EngineRefusal` if they are unreadable."""


@runtime_checkable
class ImagePulling(Protocol):
    """An engine whose place keeps the registry credentials of projects, to pull images with."""

    async def ensure_registries(self, project: str, read: ReadRegistries) -> None:
        """Bring the place's copy in step with what `read` gives, whatever was written before. Idempotent.

        Calls `read` again after a write: two concurrent calls leave what was stored last.
        """


@runtime_checkable
class NamedServices(Protocol):
    """An engine whose services may have a stable name (`service_name`), which leads to one run at a time."""

    async def take_service_name(self, assignment: Assignment, uid: str) -> None:
        """Lead the stable name to this run, which is ready. Idempotent.

        Never taken from a newer run that has been ready, unless that run was stopped or its anchor is absent. Does
        nothing for an anchor that is absent, or that has seen another generation.
        """


CreateAnchor = Callable[[], Awaitable[str]]
"""The rest of `Engine.ensure_anchor`: returns the UID of the anchor."""


@runtime_checkable
class Preparing(Protocol):
    """An engine that can do a part of `ensure_anchor` before anything is sent: while the run is being stored."""

    async def prepare_anchor(self, assignment: Assignment) -> CreateAnchor:
        """Render and check the run's anchor. Sends nothing to the place and reads nothing of it.

        What it returns is called once the run is stored, or never.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceDefault:
    """A value that the place itself gives a run, because the run leaves it blank."""

    path: tuple[str, ...]
    """In the effective spec."""
    value: str
    source: str
    """Which object of the place sets it, such as `LimitRange defaults`."""


MOST_DEFAULTS = 200
"""How many values `list_defaults` may list."""


@runtime_checkable
class Locating(Protocol):
    """An engine that makes Kubernetes objects. Asks nobody."""

    @property
    def installation(self) -> str:
        """The id of this installation in the labels of its objects."""

    def get_namespace(self, project: str) -> str:
        """Where the objects of a project are."""


@runtime_checkable
class Defaulting(Protocol):
    """An engine whose place fills blanks by rules of its own."""

    async def list_defaults(self, project: str, spec: EffectiveSpec) -> Sequence[PlaceDefault]:
        """What the place would add to a run of the project, at most `MOST_DEFAULTS`; possibly from a cache."""
