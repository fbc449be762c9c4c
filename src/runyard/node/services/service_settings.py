"""Settings of the Services of a virtual node."""

from dataclasses import dataclass

from runyard.node.hosts import Hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """Which Services are the node's, and how they are named. ValueError, in words, for names that cannot be used."""

    node: str = "k8s.gpu"
    """Also the `loadBalancerClass`, and the first part of the finalizer."""
    tenant: str | None = None
    domain: str | None = None
    """Without a tenant and a domain every Service of the class is refused, in words."""

    def __post_init__(self) -> None:
        if (self.tenant is None) != (self.domain is None):
            missing = "tenant" if self.tenant is None else "domain"
            raise ValueError(f"the {missing} of host names is missing: state both a tenant and a domain, or neither")
        self.find_hosts()

    @property
    def finalizer(self) -> str:
        """Holds a Service until its route is withdrawn. Each node has its own."""
        return f"{self.node}/route"

    def find_hosts(self) -> Hosts | None:
        """How hosts are named; None where that is not configured."""
        if self.tenant is None or self.domain is None:
            return None
        return Hosts(self.tenant, self.domain)
