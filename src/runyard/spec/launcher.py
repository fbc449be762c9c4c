"""The launcher: the program that starts functions which have no command of their own, and its place in a pod.

An init container installs it into a volume that the pod's container mounts read-only. `manifests` renders that shape,
and `domain.admission` admits no other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

LAUNCHER_NAME = "runyard-launcher"
"""Name of the init container, and of the volume."""
LAUNCHER_PATH = "/runyard"
"""Where the volume is mounted, in both containers."""
LAUNCHER_VOLUME_SIZE = "64Mi"
LAUNCHER_REQUESTS: Mapping[str, str] = MappingProxyType({"cpu": "10m", "memory": "32Mi"})
LAUNCHER_LIMITS: Mapping[str, str] = MappingProxyType({"memory": "128Mi"})
"""The init container copies a few files. It runs alone, so a run that requests more is not made larger by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """The launcher of an installation; the operator chooses it, never a run."""

    image: str
    install: tuple[str, ...]
    """The command of the init container: copies the launcher to `LAUNCHER_PATH`."""
    start: tuple[str, ...]
    """The command of the pod's container: the launcher, which then starts the function."""
