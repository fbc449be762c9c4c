"""What a cluster might leave on this machine, counted."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True)
class Traces:
    """Sets rather than numbers: a failed comparison names what stayed. Other clusters' own things are left out."""

    links: frozenset[str]
    routes: frozenset[str]
    mounts: frozenset[str]
    iptables: frozenset[str]
    cgroups: frozenset[str]
    files: frozenset[str]
    folders: frozenset[str]


def count_traces(name: str) -> Traces:
    others = [entry.name for entry in state_folder().iterdir() if entry.name != name] if state_folder().exists() else []
    return Traces(
        links=frozenset(link["ifname"] for link in _ip("link") if not _is_other_link(link["ifname"], others)),
        routes=frozenset(json.dumps(route) for route in _ip("route") if not _is_other_link(route["dev"], others)),
        mounts=frozenset(Path("/proc/self/mounts").read_text().splitlines()),
        iptables=frozenset(line for line in _iptables_lines() if not line.startswith("#")),
        cgroups=frozenset(
            str(group)
            for hierarchy in hierarchies()
            for group in hierarchy.glob("runyard-testbed-*")
            if group.name.removeprefix("runyard-testbed-") not in others
        ),
        files=frozenset(str(path) for folder in _LITTERED for path in Path(folder).glob("*")),
        folders=frozenset(
            entry.name for entry in state_folder().glob("*") if entry.is_dir() and entry.name not in others
        ),
    )


def namespaces_of(pid: int) -> dict[str, str]:
    """The namespaces of a process, by kind."""
    return {kind: str(Path(f"/proc/{pid}/ns/{kind}").readlink()) for kind in _NAMESPACES}


def processes_in(namespaces: dict[str, str]) -> list[str]:
    """The command lines of all processes that live in one of the namespaces."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if any(str((folder / "ns" / kind).readlink()) == inode for kind, inode in namespaces.items()):
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # it ended meanwhile, or is a kernel thread's
    return found


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


def _ip(what: str) -> list[dict[str, str]]:
    text = subprocess.run(["ip", "-json", what], capture_output=True, text=True, check=True).stdout
    rows: list[dict[str, str]] = json.loads(text)
    return rows


def _is_other_link(device: str, others: list[str]) -> bool:
    if not device.startswith("rytb"):
        return False
    slots = set()
    for other in others:
        record = state_folder() / other / "cluster.json"
        if record.is_file():
            slots.add(json.loads(record.read_text())["slot"])
    return int(device.removeprefix("rytb")) in slots


def _iptables_lines() -> list[str]:
    done = subprocess.run(["iptables-save"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def assert_gone(cluster: Cluster, namespaces: dict[str, str]) -> None:
    """Nothing of it runs any more: by namespace and by command line."""
    assert processes_in(namespaces) == []
    assert processes_naming(cluster.directory) == []
