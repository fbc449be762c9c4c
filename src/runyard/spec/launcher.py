"""The launcher: the program that starts functions, and its place in a pod.

A run with a command of its own has it only if the launcher must install requirements first.

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
LAUNCHER_FILE = "launcher.pyz"
"""The launcher in the root folder of its image, and in the volume."""
COMMAND_OPTION = "--"
"""The argument of the launcher behind which the run's own command stands."""
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
    installs_requirements: bool = False
    """Whether it installs the function's requirements itself. Then it also starts commands that need them."""


def make_launcher(image: str) -> Launcher:
    """The launcher of an image that is built by `deploy/images/launcher`.

    Any image starts it that has a Python 3.10 or later as `python3`. It installs the function's requirements itself.
    """
    path = f"{LAUNCHER_PATH}/{LAUNCHER_FILE}"
    return Launcher(
        image=image,
        install=("cp", f"/{LAUNCHER_FILE}", path),
        start=("python3", "-u", path, "--install-requirements"),
        installs_requirements=True,
    )
