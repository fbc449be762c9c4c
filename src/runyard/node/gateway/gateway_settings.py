"""Settings and bounds of the built-in gateway."""

from dataclasses import dataclass
from pathlib import Path

from runyard.node.hosts import check_domain


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """ValueError, in words, for a domain that is not a DNS name."""

    domain: str
    """Hosts outside of it are not served."""
    namespace: str | None = None
    """Of the routes at the provider; None: all namespaces."""
    listen_host: str = "127.0.0.1"
    listen_port: int = 8443
    """0: any free port."""
    folder: Path | None = None
    """Where the CA is kept; None: a new CA at every start, in memory."""
    most_connections: int = 1024
    head_seconds: float = 30.0
    """Until a request's head is complete, and until the next request of a connection."""
    idle_seconds: float = 300.0
    """Without a byte of a body, in either direction."""
    connect_seconds: float = 5.0

    def __post_init__(self) -> None:
        check_domain(self.domain)
