"""The settings of one agent."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from runyard.node.hosts import LONGEST_TENANT, check_domain
from runyard.spec.names import check_dns_label, check_dns_subdomain
from runyard.spec.problems import shorten


class SettingsError(ValueError):
    """A setting that cannot be used; the text names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """What an operator chooses."""

    name: str = "k8s.gpu"
    """Of the node; also of its scheduler, its load balancer class, and the label of its RuntimeClasses."""
    namespace: str = "kube-system"
    """Where the agent keeps the Lease of its leader election."""
    address: str
    """Where the apiserver reaches the kubelet port: an IP address."""
    port: int = 10250
    webhook_port: int | None = None
    """Fill pods by a webhook there, where the cluster does not serve MutatingAdmissionPolicies."""
    tenant: str = ""
    domain: str = ""
    """Hosts of services are `<service uid>-<tenant>.<domain>`."""
    allocatable: Literal["ledger", "static"] = "ledger"
    """`static`: constant figures, and the default scheduler binds."""
    pod_ip: Literal["none", "remote", "agent"] = "none"
    """What `status.podIP` shows."""
    allows_tokens: bool = False
    """Whether service account tokens that pods ask for are handed to the provider."""
    accepted_provider: str = ""
    """The identity of another provider that may take the node over although pods are bound: they are given up."""
    unready_after_seconds: float = 60.0
    """How long the provider may be out of reach before pods turn Ready=False."""

    def __post_init__(self) -> None:
        _check("name", self.name, check_dns_subdomain, "a DNS name of at most 63 characters, such as k8s.gpu", most=63)
        _check("namespace", self.namespace, check_dns_label, "a DNS label", most=63)
        if not 0 <= self.port <= 65535:
            raise SettingsError(f"port {self.port} is out of range; allowed: 0 to 65535, 0 for any free one")
        if self.tenant:
            allowed = f"a DNS label of at most {LONGEST_TENANT} characters"
            _check("tenant", self.tenant, check_dns_label, allowed, most=LONGEST_TENANT)
        if self.domain:
            _check("domain", self.domain, _check_domain, "a DNS name of at most 180 characters", most=180)
        if bool(self.tenant) != bool(self.domain):
            lacking = "domain" if self.tenant else "tenant"
            raise SettingsError(f"{lacking} is missing: hosts of services need both tenant and domain")

    @property
    def scheduler(self) -> str:
        """The `schedulerName` of pods that the agent binds."""
        return self.name

    @property
    def taint_key(self) -> str:
        """Nobody tolerates it, so that only the agent places pods here; static: pods of its classes do."""
        return f"{self.name}/agent"

    @property
    def hold_taint_key(self) -> str:
        """Of the taint that tells the default scheduler that the node takes no new pods now. Nobody tolerates it."""
        return f"{self.name}/takes-no-pods"

    @property
    def has_ledger(self) -> bool:
        """Whether the agent is the scheduler of its shapes."""
        return self.allocatable == "ledger"


def _check_domain(domain: str) -> str | None:
    try:
        check_domain(domain)
    except ValueError as error:
        return str(error)
    return None


def _check(field: str, value: str, find_error: Callable[[str], str | None], allowed: str, *, most: int) -> None:
    if len(value) > most or find_error(value) is not None:
        raise SettingsError(f"{field} {shorten(value)!r} cannot be used; allowed: {allowed}")
