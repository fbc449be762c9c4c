"""The cgroup of a cluster: in every hierarchy of this machine (version 1), or in the only one (version 2)."""

import time
from pathlib import Path

from testbed.errors import TestbedError

CGROUP_MOUNT = Path("/sys/fs/cgroup")


def hierarchies() -> list[Path]:
    """The roots of the cgroup hierarchies: one with version 2, one per controller with version 1."""
    if (CGROUP_MOUNT / "cgroup.controllers").exists():
        return [CGROUP_MOUNT]
    # Skip links to other hierarchies (cpu → cpu,cpuacct).
    return sorted({entry.resolve() for entry in CGROUP_MOUNT.iterdir() if entry.is_dir()})


def ensure_root(name: str) -> None:
    """Make the root in every hierarchy, as the kubelet demands of its cgroupRoot. Idempotent."""
    for hierarchy in hierarchies():
        (hierarchy / name).mkdir(exist_ok=True)


def remove_root(name: str) -> None:
    """Remove the root and all below it. Idempotent; the processes in it must be dead."""
    deadline = time.monotonic() + 10
    for hierarchy in hierarchies():
        while (hierarchy / name).exists():
            try:
                _remove_tree(hierarchy / name)
            except OSError as error:
                # The kernel releases a group shortly after its last process ended.
                if time.monotonic() > deadline:
                    raise TestbedError(f"cgroup {hierarchy / name} cannot be removed: {error}") from error
                time.sleep(0.05)


def _remove_tree(folder: Path) -> None:
    for child in folder.iterdir():
        if child.is_dir():
            _remove_tree(child)
    folder.rmdir()
