"""What a cluster might leave on this machine, counted."""

import json
import os
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from testbed.addresses import Addresses
from testbed.cgroups import hierarchies
from testbed.cluster import Cluster
from testbed.site import state_folder

_LITTERED = (
    "/run/netns",
    "/run/containerd",
    "/var/log/pods",
    "/var/log/containers",
    "/var/lib/cni",
    "/var/lib/kubelet",
    "/etc/cni",
    "/opt/cni",
    "/opt/containerd",
)
_NAMESPACES = ("net", "mnt", "pid")
_OTHERS = (" /tmp/", " /dev/shm/", "/run/netns/netns-", "/containers/storage/")
"""Parts of paths that other tests, which run meanwhile, use: their folders, also in memory, and what podman mounts."""
_PODMAN_DEVICES = r"cni-podman\d+|veth[0-9a-f]+"
_PODMAN_RULES = r"CNI-|10\.88\."
"""What podman makes on the host for containers of other tests. A cluster's own are in its network namespace."""


@dataclass(frozen=True)
class Traces:
    """Sets rather than numbers: a failed comparison names what stayed. What other clusters have is left out."""

    links: frozenset[str]
    routes: frozenset[str]
    mounts: frozenset[str]
    iptables: frozenset[str]
    cgroups: frozenset[str]
    files: frozenset[str]
    state: frozenset[str]


def count_traces(name: str, *, slot: int) -> Traces:
    """What is there now, but for what belongs to clusters of other names and slots: they come and go meanwhile."""
    own = Addresses(slot).host_device

    def is_counted(device: str) -> bool:
        return device == own or re.fullmatch(rf"rytb\d+|{_PODMAN_DEVICES}", device) is None

    return Traces(
        links=frozenset(link["ifname"] for link in _ip("link") if is_counted(link["ifname"])),
        routes=frozenset(json.dumps(route) for route in _ip("route") if is_counted(route["dev"])),
        mounts=frozenset(line for line in Path("/proc/self/mounts").read_text().splitlines() if not _is_others(line)),
        iptables=frozenset(
            line for line in _iptables_lines() if not line.startswith("#") and not re.search(_PODMAN_RULES, line)
        ),
        cgroups=frozenset(
            str(group) for hierarchy in hierarchies() for group in hierarchy.glob(f"runyard-testbed-{name}-*")
        ),
        files=frozenset(
            str(path)
            for folder in map(Path, _LITTERED)
            for path in (folder, *folder.glob("*"))
            if path.exists() and not _is_others(str(path))
        ),
        state=frozenset(entry.name for entry in state_folder().glob("*") if entry.name.startswith(name)),
    )


@dataclass(frozen=True)
class Namespaces:
    """The namespaces of a process, by kind, and when they were read, in seconds since the machine booted."""

    inodes: dict[str, str]
    read_at: float


def namespaces_of(pid: int) -> Namespaces:
    """The namespaces of a process."""
    inodes = {kind: str(Path(f"/proc/{pid}/ns/{kind}").readlink()) for kind in _NAMESPACES}
    return Namespaces(inodes, time.clock_gettime(time.CLOCK_BOOTTIME))


def processes_in(namespaces: Namespaces) -> list[str]:
    """The command lines of all processes that live in one of the namespaces.

    Later ones do not count: the kernel uses the number of a namespace again, and other clusters start meanwhile.
    """
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_inside = any(
                str((folder / "ns" / kind).readlink()) == inode for kind, inode in namespaces.inodes.items()
            )
            if is_inside and _read_start(folder) <= namespaces.read_at:
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # it ended meanwhile, or is a kernel thread's
    return found


def _read_start(folder: Path) -> float:
    """When a process started, in seconds since the machine booted. Its name, in brackets, may have spaces."""
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def processes_naming(directory: Path) -> list[str]:
    """The command lines of all processes that were started with a path in a cluster's folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(directory) in line:
            found.append(line)
    return found


def _is_others(line: str) -> bool:
    return any(part in line for part in _OTHERS)


def _ip(what: str) -> list[dict[str, str]]:
    text = subprocess.run(["ip", "-json", what], capture_output=True, text=True, check=True).stdout
    rows: list[dict[str, str]] = json.loads(text)
    return rows


def _iptables_lines() -> list[str]:
    done = subprocess.run(["iptables-save"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def assert_gone(cluster: Cluster, namespaces: Namespaces) -> None:
    """Nothing of it runs any more: by namespace and by command line."""
    living, naming = processes_in(namespaces), processes_naming(cluster.directory)
    assert (living, naming) == ([], []), f"in its namespaces: {living}; with its folder: {naming}"
