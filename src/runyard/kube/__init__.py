"""Kubernetes as a library: client, reflector, streams and typed errors. Knows nothing of runs.

May import aiohttp (and its yarl), msgspec, yaml (kubeconfig only) and the standard library.
Start with `client.py` (the verbs), `errors.py` (every failure, as a tree), `retry.py` (which requests are retried),
`reflector.py` (a cluster's objects kept in memory) and `streams/` (logs, exec, port-forward).
"""

from runyard.kube.client import Client
from runyard.kube.config import ClusterConfig, load_config, load_in_cluster, load_kubeconfig
from runyard.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Cause,
    ConfigError,
    Conflict,
    DeadlineExceeded,
    Disconnected,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    Malformed,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    NotServed,
    ServerError,
    Stalled,
    Throttled,
    TooLarge,
    Unauthorized,
    Unavailable,
    Unreachable,
    UnsupportedMediaType,
    Untrusted,
)
from runyard.kube.leader_election import ElectionTiming, LeaderElection, Leadership, LeadershipLost
from runyard.kube.objects import Listing, Object
from runyard.kube.rate_limiter import Priority, RateLimit
from runyard.kube.reflector import Reflector
from runyard.kube.resources import Resource
from runyard.kube.store import Store, Tombstone
from runyard.kube.subscription import ReflectorStopped, Subscription
from runyard.kube.transport import Transport
from runyard.kube.views import Key, Metadata, View

__all__ = [
    "AlreadyExists",
    "ApiError",
    "BadRequest",
    "Cause",
    "Client",
    "ClusterConfig",
    "ConfigError",
    "Conflict",
    "DeadlineExceeded",
    "Disconnected",
    "ElectionTiming",
    "Forbidden",
    "Gone",
    "Invalid",
    "Key",
    "KubeError",
    "LeaderElection",
    "Leadership",
    "LeadershipLost",
    "Listing",
    "Malformed",
    "Metadata",
    "MethodNotAllowed",
    "NotAcceptable",
    "NotFound",
    "NotServed",
    "Object",
    "Priority",
    "RateLimit",
    "Reflector",
    "ReflectorStopped",
    "Resource",
    "ServerError",
    "Stalled",
    "Store",
    "Subscription",
    "Throttled",
    "Tombstone",
    "TooLarge",
    "Transport",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "UnsupportedMediaType",
    "Untrusted",
    "View",
    "load_config",
    "load_in_cluster",
    "load_kubeconfig",
]
