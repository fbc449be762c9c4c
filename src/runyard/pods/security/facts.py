"""The facts of a pod that Pod Security checks need, read once before all checks."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SelinuxOptions:
    """`seLinuxOptions`; empty text is unset."""

    type: str
    user: str
    role: str


@dataclass(frozen=True, slots=True)
class SecurityContext:
    """Security context fields of pods and containers. None is unset; a profile's type may be empty."""

    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    seccomp_type: str | None = None
    apparmor_type: str | None = None
    selinux: SelinuxOptions | None = None
    host_process: bool | None = None


@dataclass(frozen=True, slots=True)
class Port:
    """A container's port; a `host` of 0 means no host port."""

    container: int
    host: int


@dataclass(frozen=True, slots=True)
class Container:
    """One container of any kind."""

    name: str
    context: SecurityContext = field(default_factory=SecurityContext)
    privileged: bool | None = None
    allow_privilege_escalation: bool | None = None
    proc_mount: str | None = None
    added_capabilities: tuple[str, ...] = ()
    dropped_capabilities: tuple[str, ...] = ()
    ports: tuple[Port, ...] = ()
    handler_hosts: tuple[str, ...] = ()
    """Explicit hosts of probes and lifecycle handlers."""


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume and its source types: none means emptyDir, more than one is invalid."""

    name: str
    sources: frozenset[str]


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod or a pod template; containers in the plugin's order: init, main, ephemeral."""

    annotations: Mapping[str, str]
    context: SecurityContext
    containers: tuple[Container, ...]
    volumes: tuple[Volume, ...]
    sysctls: tuple[str, ...]
    host_namespaces: tuple[str, ...]
    """Those of `hostNetwork`, `hostPID`, `hostIPC` that are true."""
    is_windows: bool
    has_own_users: bool
    """`hostUsers: false`: the pod has its own user namespace, where root is not root of the host."""

    @property
    def contexts(self) -> tuple[SecurityContext, ...]:
        """The contexts of the pod and its containers."""
        return (self.context, *(container.context for container in self.containers))
