"""What an operator decides about the Kubernetes engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from runyard.kube import RateLimit
from runyard.spec.launcher import Launcher

_NO_AMOUNTS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Watermark:
    """The newest observation of this place in the database. Versions below it belong to a new epoch."""

    epoch: int = 0
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectLimits:
    """What an operator sets for the namespace of every project."""

    quota: Mapping[str, str] = field(default_factory=lambda: _NO_AMOUNTS)
    """`spec.hard` of a ResourceQuota, such as `requests.cpu: "20"`. Empty: none is made."""
    default_requests: Mapping[str, str] = field(default_factory=lambda: _NO_AMOUNTS)
    default_limits: Mapping[str, str] = field(default_factory=lambda: _NO_AMOUNTS)
    """A LimitRange's defaults for containers that set none. Both empty: none is made."""
    is_network_isolated: bool = True
    """Whether pods are reached only from their project, and do not reach private addresses."""
    reachable_networks: tuple[str, ...] = ()
    """CIDRs that pods may reach besides public addresses, such as a package mirror or an object store."""
    server_namespace: str | None = None
    """The namespace of the server's own pods, which reach pods and are reached. None: it is outside the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """Settings of a Kubernetes engine. The cluster itself, and who the server is there, is a `kube.ClusterConfig`."""

    installation: str
    """`meta.installation` of the database; every object carries it as a label. Several may share a cluster."""
    namespace: str | None = None
    """The namespace of all runs, which must exist. None: a namespace per project, which the engine creates."""
    endpoint: str | None = None
    """The server's address, as pods reach it."""
    launcher: Launcher | None = None
    """Starts functions that have no command of their own; None: such functions are refused."""
    package_index: str | None = None
    """URL of the index from which pods install packages; None: the default of pip and uv."""
    rate_limit: RateLimit = field(default_factory=RateLimit)
    request_seconds: float = 20.0
    """The deadline of one request, retries included; below the timeout of a call to an engine."""
    project_limits: ProjectLimits = ProjectLimits()
    """Quotas, defaults and networks of the namespaces that the engine creates."""
    watermark: Watermark = Watermark()
