"""The directory of a cluster on this machine, and its options."""

import dataclasses
import hashlib
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testbed.addresses import Addresses
from testbed.errors import TestbedError
from testbed.supervisor import PRIVATE_FOLDERS

DEFAULT_NAME = "dev"
# A path in it must fit into the 107 characters of a unix socket's address.
_LONGEST_DIRECTORY = 70
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,22}[a-z0-9])?")


@dataclass(frozen=True)
class Options:
    """Options of a cluster."""

    kubernetes: str = "1.36"
    node: bool = True
    dns: bool = True
    storage: bool = True
    metrics: bool = False
    audit: bool = False
    gpus: int = 0
    fake_nodes: int = 0
    flags: tuple[tuple[str, str], ...] = field(default=())

    def __post_init__(self) -> None:
        for name in ("gpus", "fake_nodes"):
            value = getattr(self, name)
            if not 0 <= value <= 10_000:
                raise TestbedError(f"--{name.replace('_', '-')} {value}: out of range; allowed: 0 to 10000")
        if not self.node and (self.gpus or self.metrics):
            raise TestbedError("--gpus and --metrics need a node: leave out --no-node")

    def extra_flags(self, component: str) -> list[str]:
        """The flags that were asked for one component."""
        return [flag for name, flag in self.flags if name == component]


@dataclass(frozen=True)
class Site:
    """One cluster's folder, addresses and options."""

    name: str
    directory: Path
    addresses: Addresses
    options: Options

    @property
    def node_name(self) -> str:
        return f"{self.name}-node"

    @property
    def pki(self) -> Path:
        return self.directory / "pki"

    @property
    def etcd(self) -> Path:
        return self.directory / "etcd"

    @property
    def logs(self) -> Path:
        return self.directory / "logs"

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "admin.kubeconfig"

    @property
    def containerd_socket(self) -> Path:
        return self.directory / "containerd.sock"

    @property
    def cgroup(self) -> str:
        # Cgroups are the machine's, names only the state folder's.
        return f"runyard-testbed-{self.name}-{hashlib.sha256(str(self.directory).encode()).hexdigest()[:6]}"

    def save(self) -> None:
        """Write it down, so that any later process finds the cluster by its name."""
        record = {"slot": self.addresses.slot, "options": dataclasses.asdict(self.options)}
        temporary = self.directory / "cluster.json.new"
        temporary.write_text(json.dumps(record, indent=1))
        temporary.rename(self.directory / "cluster.json")


def check_name(name: str) -> str:
    """Return the name if it is valid: it becomes part of directories, cgroups and the node's name."""
    if not _NAME.fullmatch(name):
        raise TestbedError(
            f"--name {name}: not a valid name; allowed: 1 to 24 lower-case letters, digits and dashes, "
            "no dash at either end, such as dev-2"
        )
    return name


def state_folder() -> Path:
    """Return the directory with one subdirectory per cluster; `RUNYARD_TESTBED_STATE` overrides it."""
    chosen = os.environ.get("RUNYARD_TESTBED_STATE")
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(chosen) if chosen else Path(base) / "runyard" / "testbed"


def cluster_directory(name: str) -> Path:
    """Return a cluster's directory, whether it exists or not."""
    directory = state_folder() / check_name(name)
    if len(str(directory)) > _LONGEST_DIRECTORY:
        raise TestbedError(
            f"the path {directory} is too long for unix sockets ({len(str(directory))} characters; "
            f"allowed: {_LONGEST_DIRECTORY}): set RUNYARD_TESTBED_STATE to a shorter one"
        )
    hidden = next((folder for folder in PRIVATE_FOLDERS if directory.is_relative_to(folder)), None)
    if hidden:
        raise TestbedError(
            f"the folder {directory} cannot be used: a cluster has its own {hidden}; set RUNYARD_TESTBED_STATE"
        )
    return directory


def find_site(name: str) -> Site | None:
    """A cluster that was written down and not yet removed; a half-written record counts as none."""
    directory = cluster_directory(name)
    try:
        record: dict[str, Any] = json.loads((directory / "cluster.json").read_text())
        options = dict(record["options"])
        options["flags"] = tuple((component, flag) for component, flag in options["flags"])
        return Site(name, directory, Addresses(record["slot"]), Options(**options))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def iter_names() -> list[str]:
    """The names under which something is left on this machine, alive or not."""
    folder = state_folder()
    if not folder.is_dir():
        return []
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and _NAME.fullmatch(entry.name))
