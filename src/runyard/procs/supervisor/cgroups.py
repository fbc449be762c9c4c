"""Control groups (cgroups) v1 and v2: limits, peak memory, out-of-memory kills, and the processes of an instance.

An instance gets a cgroup of its own where the supervisor may make one; where it may not, `make_cgroup` says so by what
it enforces. On v1 it lies below the supervisor's own cgroup. On v2 a cgroup with processes cannot give controllers to
cgroups below it ("no internal processes"). So a cgroup that was delegated to us is emptied into one below it, and
otherwise the new one lies beside the supervisor's own, with the controllers that their parent gives.
"""

from __future__ import annotations

import os
import time

from runyard.procs.supervisor.process_tree import find_start_time, read_kernel_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAME_PREFIX = "runyard-"
V1, V2 = "cgroup v1", "cgroup v2"
_CONTROLLERS = ("memory", "cpu", "pids")
_LIMIT_NAMES = {"memory": "memory_bytes", "cpu": "cpu_millis", "pids": "processes"}
_PERIOD_MICROSECONDS = 100_000
_LEAST_QUOTA_MICROSECONDS = 1000
_MARK_CHARACTERS = 32
ORPHANED_SECONDS = 3600.0
"""An empty cgroup of ours that is older belongs to nobody: a supervisor fills its own at once."""
MOST_ENTRIES = 10_000
"""Entries of a cgroup that are looked at for orphans."""
LARGEST_LIST_BYTES = 4 << 20
"""How much of a list of processes, and of the list of mounts, is read."""


class Cgroup:
    """The directories of one instance: one per hierarchy."""

    def __init__(self) -> None:
        self.directories: dict[str, str] = {}
        """By controller; on v2 several controllers share one."""
        self.versions: dict[str, str] = {}
        self.limited: dict[str, str] = {}
        """Controllers whose limit was accepted, with the version."""

    @property
    def paths(self) -> list[str]:
        """Every directory once."""
        return sorted(set(self.directories.values()))

    @property
    def memory_path(self) -> str | None:
        """Where memory is accounted."""
        return self.directories.get("memory")

    def read_peak_bytes(self) -> int | None:
        """Return the most memory that was used at once, page cache included."""
        name = "memory.peak" if self.versions.get("memory") == V2 else "memory.max_usage_in_bytes"
        content = read_kernel_file(f"{self.memory_path}/{name}").strip()
        return int(content) if content.isdigit() else None

    def is_out_of_memory(self) -> bool:
        """Whether the kernel has killed a process here because the limit was reached."""
        name = "memory.events" if self.versions.get("memory") == V2 else "memory.oom_control"
        lines = read_kernel_file(f"{self.memory_path}/{name}").splitlines()
        return any(line.startswith(b"oom_kill ") and line.split()[1] != b"0" for line in lines)

    def open_memory_event(self) -> int | None:
        """Return a descriptor (eventfd) that can be read when the limit is reached; None where it needs none.

        With cgroup v2 the kernel kills everything in the cgroup (`memory.oom.group`), with v1 only one process.
        """
        if self.limited.get("memory") != V1:
            return None
        event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            control = os.open(f"{self.memory_path}/memory.oom_control", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            os.close(event)
            return None
        is_registered = _write(f"{self.memory_path}/cgroup.event_control", f"{event} {control}")
        os.close(control)
        if not is_registered:
            os.close(event)
            return None
        return event

    def list_processes(self) -> dict[int, int]:
        """Return the start times of its processes, by pid."""
        return list_cgroup_processes(self.paths)

    def kill(self) -> None:
        """Kill everything in it at once, where the kernel can (v2, Linux 5.14)."""
        for path in self.paths:
            kill_cgroup(path)

    def remove(self) -> bool:
        """Remove the directories; False while something is in them."""
        remaining = [path for path in self.paths if not remove_cgroup(path)]
        return not remaining


def make_cgroup(name: str, limits: dict[str, Any]) -> Cgroup:
    """Make the cgroup of an instance, with limits, as far as this machine and this user allow."""
    cgroup = Cgroup()
    hierarchies = read_hierarchies()
    for controller in _CONTROLLERS:
        if controller in hierarchies:
            _add_v1(cgroup, controller, f"{hierarchies[controller]}/{name}")
    if "" in hierarchies:
        _add_v2(cgroup, hierarchies[""], name)
    for parent in {os.path.dirname(path) for path in cgroup.paths}:
        sweep_orphans(parent)
    for controller in list(cgroup.directories):
        _set_limit(cgroup, controller, limits[_LIMIT_NAMES[controller]])
    return cgroup


def list_cgroup_processes(paths: list[str]) -> dict[int, int]:
    """Return the start times of the processes in these cgroups, by pid."""
    lists = (read_kernel_file(f"{path}/cgroup.procs", LARGEST_LIST_BYTES) for path in paths)
    pids = {int(each) for content in lists for each in content.split()}
    found = {pid: find_start_time(pid) for pid in pids if pid > 0}
    return {pid: start_time for pid, start_time in found.items() if start_time is not None}


def kill_cgroup(path: str) -> None:
    """Kill everything in a v2 cgroup at once; has no effect where the kernel cannot."""
    _write(f"{path}/cgroup.kill", "1")


def remove_cgroup(path: str) -> bool:
    """Remove a cgroup; False while something is in it."""
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def sweep_orphans(parent: str) -> None:
    """Remove old and empty cgroups of instances whose supervisor was killed and whose folder is gone."""
    oldest = time.time() - ORPHANED_SECONDS
    try:
        entries = os.scandir(parent)
    except OSError:
        return
    with entries:
        for entry, _ in zip(entries, range(MOST_ENTRIES), strict=False):
            # runyard-<mark of 32 digits>-<command>.<instance>
            is_ours = (
                entry.name.startswith(NAME_PREFIX) and entry.name[len(NAME_PREFIX) + _MARK_CHARACTERS :][:1] == "-"
            )
            if is_ours and _read_mtime(entry.path) < oldest and not list_cgroup_processes([entry.path]):
                remove_cgroup(entry.path)


def _read_mtime(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return time.time()  # Another supervisor has just removed it.


def read_hierarchies() -> dict[str, str]:
    """Return the directory of this process's own cgroup by v1 controller, and by "" for v2."""
    own: dict[str, str] = {}
    for line in read_kernel_file("/proc/self/cgroup").decode(errors="surrogateescape").splitlines():
        _, controllers, path = line.split(":", 2)
        own.update(dict.fromkeys(controllers.split(","), path))
    found: dict[str, str] = {}
    for kind, options, root, point in _list_cgroup_mounts():
        for controller in [""] if kind == "cgroup2" else [each for each in options if each in own]:
            directory = _locate(own.get(controller), root, point)
            if directory is not None and controller not in found:
                found[controller] = directory
    return found


def _list_cgroup_mounts() -> list[tuple[str, list[str], str, str]]:
    """Return kind, options, root within the hierarchy and mount point of each cgroup file system."""
    mounts = []
    content = read_kernel_file("/proc/self/mountinfo", LARGEST_LIST_BYTES).decode(errors="surrogateescape")
    for line in content.splitlines():
        before, _, after = line.partition(" - ")
        fields, rest = before.split(" "), after.split(" ")
        if rest[0] in ("cgroup", "cgroup2") and len(fields) > 4:
            mounts.append((rest[0], rest[-1].split(","), fields[3], fields[4]))
    return mounts


def _locate(own: str | None, root: str, point: str) -> str | None:
    """Return where a cgroup is mounted; None if the mount does not show it."""
    if own is None or own.startswith("/.."):
        return None
    if root == "/":
        path = point + own
    elif own == root or own.startswith(f"{root}/"):
        path = point + own[len(root) :]
    else:
        return None
    path = path.rstrip("/")
    return path if os.path.isdir(path) else None


def _add_v1(cgroup: Cgroup, controller: str, path: str) -> None:
    try:
        os.mkdir(path, 0o755)
    except FileExistsError:
        pass  # Two controllers may share a hierarchy.
    except OSError:
        return
    if os.access(f"{path}/cgroup.procs", os.W_OK):
        cgroup.directories[controller] = path
        cgroup.versions[controller] = V1


def _add_v2(cgroup: Cgroup, own: str, name: str) -> None:
    parent = _find_v2_parent(own)
    if parent is None:
        return
    available = read_kernel_file(f"{parent}/cgroup.subtree_control").decode().split()
    controllers = [each for each in _CONTROLLERS if each in available and each not in cgroup.directories]
    path = f"{parent}/{name}"
    try:
        if controllers:
            os.mkdir(path, 0o755)
    except OSError:
        return
    cgroup.directories.update(dict.fromkeys(controllers, path))
    cgroup.versions.update(dict.fromkeys(controllers, V2))


def _find_v2_parent(own: str) -> str | None:
    """Return a cgroup that may have cgroups with a memory limit below it, and that this process may use."""
    if not os.path.exists(f"{own}/cgroup.type"):
        # Only the root of the whole hierarchy has no type, and it may hold processes and give controllers.
        return own if _enable(own) else None
    if _is_delegated(own) and _evacuate(own) and _enable(own):
        return own
    above = os.path.dirname(own)
    if not os.path.exists(f"{above}/cgroup.procs") or not os.access(above, os.W_OK):
        return None
    # systemd's `DelegateSubgroup=` puts the server below the cgroup that it delegates, and enables nothing there.
    return above if _gives_memory(above) or (_is_delegated(above) and _enable(above)) else None


def _gives_memory(path: str) -> bool:
    return b"memory" in read_kernel_file(f"{path}/cgroup.subtree_control").split()


def _enable(path: str) -> bool:
    for controller in _CONTROLLERS:
        _write(f"{path}/cgroup.subtree_control", f"+{controller}")
    return _gives_memory(path)


def _is_delegated(own: str) -> bool:
    """Whether the cgroup was given to us: by systemd (`Delegate=yes`), or as the root of a cgroup namespace."""
    if b"0::/\n" in read_kernel_file("/proc/self/cgroup"):
        return True
    for name in ("user.delegate", "trusted.delegate"):
        try:
            if os.getxattr(own, name) == b"1":
                return True
        except OSError:
            pass
    return False


def _evacuate(own: str) -> bool:
    """Move the processes of our own cgroup into one below it, so that it may give controllers to others below it."""
    leaf = f"{own}/{NAME_PREFIX}supervisors"
    try:
        os.makedirs(leaf, 0o755, exist_ok=True)
    except OSError:
        return False
    for _ in range(10):
        pids = read_kernel_file(f"{own}/cgroup.procs", LARGEST_LIST_BYTES).split()
        for pid in pids:
            _write(f"{leaf}/cgroup.procs", pid.decode())
        if not pids:
            return True
    return False


def _set_limit(cgroup: Cgroup, controller: str, limit: int | None) -> None:
    path, version = cgroup.directories[controller], cgroup.versions[controller]
    if limit is None:
        return
    if controller == "memory":
        is_set = _limit_memory(path, version, limit)
    elif controller == "pids":
        is_set = _write(f"{path}/pids.max", str(limit))
    else:
        is_set = _limit_cpu(path, version, limit)
    if is_set:
        cgroup.limited[controller] = version


def _limit_memory(path: str, version: str, limit: int) -> bool:
    if version == V1:
        is_set = _write(f"{path}/memory.limit_in_bytes", str(limit))
        _write(f"{path}/memory.memsw.limit_in_bytes", str(limit))
        return is_set
    _write(f"{path}/memory.swap.max", "0")
    _write(f"{path}/memory.oom.group", "1")
    return _write(f"{path}/memory.max", str(limit))


def _limit_cpu(path: str, version: str, millis: int) -> bool:
    quota = max(_LEAST_QUOTA_MICROSECONDS, millis * _PERIOD_MICROSECONDS // 1000)
    if version == V2:
        return _write(f"{path}/cpu.max", f"{quota} {_PERIOD_MICROSECONDS}")
    _write(f"{path}/cpu.cfs_period_us", str(_PERIOD_MICROSECONDS))
    return _write(f"{path}/cpu.cfs_quota_us", str(quota))


def _write(path: str, content: str) -> bool:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(descriptor, content.encode())
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)
