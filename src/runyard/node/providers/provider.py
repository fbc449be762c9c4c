"""What a provider implements: `Provider`, and as many of the optional Protocols below it as it can.

Pods are named by the uid of the local pod, everywhere: a name may be used again, a uid is not.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, runtime_checkable

from runyard.node.offer import Amounts, Shape

Object = dict[str, Any]
StreamKind = Literal["exec", "attach", "portforward"]


class ProviderError(Exception):
    """The provider failed."""


class ProviderUnavailable(ProviderError):
    """Nobody knows whether it happened: try again later. Never a reason to fail a pod."""


class ProviderRefused(ProviderError):
    """The provider decided: this cannot be done as asked. `reason` is one CamelCase word, for a pod's status."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ProviderFull(ProviderRefused):
    """The provider has no room for it now, such as in a ResourceQuota: it may be asked again."""


class RemotePodMissing(ProviderError):
    """The provider has no pod of that uid."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A pod as a provider gets to see it, with everything that it refers to."""

    uid: str
    namespace: str
    name: str
    shape: Shape
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: Object
    """The pod's spec without what belongs to the local cluster: no service account, node, scheduler, tolerations,
    affinity, priority or overhead. Field references to the local pod are resolved. ConfigMaps and Secrets have their
    local names."""
    config_maps: Mapping[str, Object] = field(default_factory=dict)
    """By local name: `data` and `binaryData`. Optional ones that do not exist are absent."""
    secrets: Mapping[str, Object] = field(default_factory=dict)
    """By local name: `type` and `data`, base64. Those of `imagePullSecrets` as well."""


@dataclass(frozen=True, slots=True)
class RemotePod:
    """A pod at the provider, as it was last seen."""

    uid: str
    """Of the local pod."""
    name: str
    """At the provider, for messages."""
    status: Object
    """A v1 PodStatus. Container names are those of the local pod."""
    requests: Amounts
    """What it holds there, for a ledger that is rebuilt after a restart."""
    is_deleting: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """Whether the provider can be reached."""

    is_up: bool
    has_listed: bool
    """Whether `Provider.pods` was complete at some time. While it is not, nothing may be taken for gone."""
    since: datetime
    """When `is_up` last changed."""
    message: str = ""
    """Why it is down."""
    reason: str = "LinkDown"
    """The same in one CamelCase word, for the node's condition."""


class Provider(Protocol):
    """The required part. Every call may be repeated, and raises `ProviderError` only.

    Its loops run while it is entered. `pods` and `link` never block.
    """

    @property
    def kind(self) -> str:
        """One word for logs and the doctor, such as `kubernetes`."""

    async def __aenter__(self) -> "Provider":
        """Start to watch."""

    async def __aexit__(self, *error: object) -> None:
        """Stop watching; pods live on."""

    @property
    def link(self) -> Link:
        """Whether the provider can be reached now."""

    @property
    def pods(self) -> Mapping[str, RemotePod]:
        """Every pod of this node that the provider has, by uid; complete if `link.has_listed`."""

    def changes(self) -> AsyncIterator[frozenset[str]]:
        """The uids of pods that changed or went, coalesced, beginning with all; an empty set: the link changed."""

    async def start(self, workload: Workload) -> None:
        """Start it unless there is a pod of that uid. Raises `ProviderRefused` if it never can be.

        When it returns, `pods` shows the pod, until it is gone.
        """

    async def update(self, workload: Workload) -> None:
        """Bring labels and the contents of ConfigMaps and Secrets of a started pod up to date."""

    async def stop(self, uid: str, *, grace_seconds: int) -> None:
        """Begin to end a pod; a second call may shorten the grace. No error if there is none."""

    async def clean_up(self, uid: str) -> None:
        """Remove what is left of a pod that `pods` does not show: copies of ConfigMaps and Secrets. Idempotent."""


@runtime_checkable
class Identity(Protocol):
    """Optional: which provider this is, so that the pods of one are not looked for at another."""

    @property
    def identity(self) -> str | None:
        """Always the same for one provider, never for two. None: not known yet. Empty: it cannot be told."""


@runtime_checkable
class FinalStatuses(Protocol):
    """Optional: what became of pods that are gone."""

    def find_final_status(self, uid: str) -> Object | None:
        """The last PodStatus of a pod that `pods` no longer shows, if it was seen; kept until `clean_up`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """How `kubectl logs` was called."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since_seconds: int | None = None
    since_time: str | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None


@runtime_checkable
class Logs(Protocol):
    """Optional: logs of containers."""

    def read_log(
        self, uid: str, container: str, options: LogOptions
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The log in chunks as they come. Raises `RemotePodMissing`, `ProviderRefused`, `ProviderUnavailable`."""


class Tunnel(Protocol):
    """The bytes after an upgrade, both ways, until either side ends."""

    @property
    def headers(self) -> Sequence[tuple[str, str]]:
        """The headers of the 101 for the client: Upgrade, X-Stream-Protocol-Version, Sec-WebSocket-*."""

    async def receive(self) -> bytes:
        """The next bytes; empty at the end."""

    async def send(self, data: bytes) -> None:
        """Send bytes; waits while the other side does not read."""

    async def close_sending(self) -> None:
        """Half-close, where the connection can."""


@runtime_checkable
class Relay(Protocol):
    """Optional: streams that the provider's own API speaks, so that they are relayed byte for byte."""

    def open_tunnel(
        self,
        kind: StreamKind,
        uid: str,
        container: str | None,
        *,
        method: str,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str],
    ) -> AbstractAsyncContextManager[Tunnel]:
        """Send the upgrade on. `query` is the kubelet's (`command`, `input`, `output`, `error`, `tty`, `port`).

        `headers` are the client's upgrade headers alone, without credentials. A refused upgrade is `ProviderRefused`.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerUsage:
    """What a container uses now."""

    name: str
    cpu_cores: float
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUsage:
    """What a pod uses now."""

    uid: str
    at: datetime
    containers: Sequence[ContainerUsage]


@runtime_checkable
class Usage(Protocol):
    """Optional: figures for `kubectl top`."""

    async def read_usage(self) -> Sequence[PodUsage]:
        """Of all running pods that it has figures of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteEvent:
    """An event about a pod at the provider."""

    uid: str
    """Of the local pod."""
    event_id: str
    """The same for every repetition of one event."""
    type: str
    reason: str
    message: str
    count: int
    first_at: str
    last_at: str
    container: str | None = None


@runtime_checkable
class Events(Protocol):
    """Optional: events of pods."""

    def events(self) -> AsyncIterator[RemoteEvent]:
        """Events as they come, repetitions as well, from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A Service of class `k8s.gpu`: traffic for `host` goes to pods of one local namespace by their labels."""

    uid: str
    """Of the local Service."""
    namespace: str
    name: str
    host: str
    selector: Mapping[str, str]
    ports: Sequence[Object]
    """The Service's ports: name, port, targetPort, protocol, appProtocol."""


@runtime_checkable
class Routes(Protocol):
    """Optional: HTTPS routes to pods."""

    async def publish_route(self, route: Route) -> None:
        """Create or update it. Idempotent."""

    async def withdraw_route(self, uid: str) -> None:
        """Remove it, if there is one. Idempotent."""

    async def list_routes(self) -> frozenset[str]:
        """The uids of all Services that have a route: complete, or `ProviderUnavailable`."""

    async def list_rejected_routes(self) -> Mapping[str, str]:
        """Why a published route is not served, by the uid of its Service. Empty where nobody says so."""
