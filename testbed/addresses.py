"""The address ranges of a cluster, all derived from its slot, so that clusters never overlap."""

from dataclasses import dataclass

SLOTS = 64
API_PORT = 6443


@dataclass(frozen=True)
class Addresses:
    """Where things are inside one cluster and on the link that joins its network namespace to this machine."""

    slot: int

    def __post_init__(self) -> None:
        if not 0 <= self.slot < SLOTS:
            raise ValueError(f"slot {self.slot} is out of range; allowed: 0 to {SLOTS - 1}")

    @property
    def host_device(self) -> str:
        """The end of the link on this machine's side; it vanishes with the namespace."""
        return f"rytb{self.slot}"

    @property
    def host_ip(self) -> str:
        return f"10.217.{self.slot}.1"

    @property
    def node_ip(self) -> str:
        return f"10.217.{self.slot}.2"

    @property
    def link_network(self) -> str:
        return f"10.217.{self.slot}.0/24"

    @property
    def pod_network(self) -> str:
        return f"10.218.{self.slot * 4}.0/22"

    @property
    def service_network(self) -> str:
        return f"10.219.{self.slot * 4}.0/22"

    @property
    def kubernetes_service_ip(self) -> str:
        return f"10.219.{self.slot * 4}.1"

    @property
    def dns_service_ip(self) -> str:
        return f"10.219.{self.slot * 4}.10"

    @property
    def server(self) -> str:
        return f"https://{self.node_ip}:{API_PORT}"
