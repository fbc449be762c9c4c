"""What this machine has for runs: cores, memory, GPUs, disk.

A container or a systemd slice may give the server less than the hardware has, so affinity and cgroup limits (v1 and v2)
count. Nothing is set aside for the server itself.
"""

import os
import platform
import re
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runyard.engines.local.capacity.amounts import CPU, DISK, MEMORY, RUNS, Amounts
from runyard.procs import read_kernel_file

GPU_RESOURCE = "nvidia.com/gpu"
"""The resource under which a run asks for the machine's GPUs."""
MOST_ACTIVE_RUNS = 110
"""How many runs execute at a time, whatever they ask for; kubelet's default for a node."""
MOST_GPUS = 64
"""How many GPUs of the machine are counted."""
GPU_QUERY_SECONDS = 10.0
"""How long `nvidia-smi` may take; without an answer the device files are counted."""
LARGEST_FACT_BYTES = 1 << 20
"""How much of one file of /proc, of a cgroup, or of an answer of `nvidia-smi` is read."""

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_DEVICE_FILE = re.compile(r"nvidia[0-9]{1,4}")
_GPU_ID = re.compile(r"GPU-[0-9A-Fa-f-]{1,64}")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One NVIDIA GPU."""

    id: str
    """As CUDA and container runtimes read it: the UUID, or the index where no UUID is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the machine has. Read once, when the engine opens; only the free disk space is read anew."""

    hostname: str
    architecture: str
    """In Go's words, as Kubernetes has them: `amd64`, `arm64`."""
    cpu_millis: int
    memory_bytes: int
    gpus: tuple[Gpu, ...] = ()
    most_runs: int = MOST_ACTIVE_RUNS
    folder: Path = field(default_factory=Path)
    """A folder on the file system whose space the runs share."""

    def measure_disk(self) -> tuple[int, int]:
        """The size of the file system and what is free on it now, in bytes. Blocks for one system call."""
        stat = os.statvfs(self.folder)
        return stat.f_frsize * stat.f_blocks, stat.f_frsize * stat.f_bavail

    def allocatable(self) -> Amounts:
        """What runs can have together, by resource."""
        amounts = {
            CPU: self.cpu_millis,
            MEMORY: self.memory_bytes,
            DISK: self.measure_disk()[0],
            RUNS: self.most_runs,
        }
        return amounts | ({GPU_RESOURCE: len(self.gpus)} if self.gpus else {})


def read_machine(
    folder: Path,
    *,
    root: Path = Path("/"),
    environ: Mapping[str, str] = os.environ,
    query_gpus: Callable[[], str | None] | None = None,
) -> Machine:
    """Read what the machine has; `folder` must exist. Blocks: it may start `nvidia-smi`.

    `root` and `query_gpus` are the seams for tests: where /proc, /sys and /dev are, and the answer of `nvidia-smi`.
    """
    groups = tuple(_iter_own_cgroups(root))
    return Machine(
        hostname=socket.gethostname() or "localhost",
        architecture=_ARCHITECTURES.get(platform.machine(), platform.machine()),
        cpu_millis=min([len(os.sched_getaffinity(0)) * 1000, *_iter_cpu_quotas(groups)]),
        memory_bytes=min([_read_total_memory(root), *_iter_memory_limits(groups)]),
        gpus=_read_gpus(root, environ, query_gpus or _query_nvidia_smi),
        folder=folder,
    )


def gpu_environment(gpus: tuple[Gpu, ...]) -> dict[str, str]:
    """The variables that show a process these GPUs only; none of them if it asked for none.

    They guide CUDA and container runtimes; they do not keep hostile code from the device files.
    """
    ids = ",".join(gpu.id for gpu in gpus)
    return {"CUDA_VISIBLE_DEVICES": ids, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NVIDIA_VISIBLE_DEVICES": ids or "void"}


def _read_total_memory(root: Path) -> int:
    found = re.search(r"^MemTotal:\s*([0-9]+) kB$", _read(root / "proc/meminfo"), re.MULTILINE)
    if found is None:
        raise OSError("/proc/meminfo does not say how much memory the machine has")
    return int(found[1]) * 1024


@dataclass(frozen=True, slots=True)
class _Cgroup:
    folder: Path
    controllers: frozenset[str]
    """Empty: cgroup v2, which has all of them."""


def _iter_own_cgroups(root: Path) -> Iterator[_Cgroup]:
    """The cgroups of this process and their parents, each of which may have a limit; v1 and v2.

    A container may see the paths of its host while only its own cgroup is mounted: parents that are absent are skipped.
    """
    mounts = dict(_iter_cgroup_mounts(root))
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        names = frozenset(controllers.split(",")) if controllers else frozenset()
        for mounted, folder in mounts.items():
            if (names and names & mounted) or (not names and not mounted):
                own = folder / path.lstrip("/")
                for group in (own, *own.parents):
                    if group.is_relative_to(folder) and ".." not in group.parts:
                        yield _Cgroup(group, names)


def _iter_cgroup_mounts(root: Path) -> Iterator[tuple[frozenset[str], Path]]:
    """Controllers and folder of each mounted hierarchy; no controllers for cgroup v2."""
    for line in _read(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if len(fields) < 5 or len(kind) < 3 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        folder = root / fields[4].lstrip("/")
        yield (frozenset() if kind[0] == "cgroup2" else frozenset(kind[2].split(","))), folder


def _iter_cpu_quotas(groups: tuple[_Cgroup, ...]) -> Iterator[int]:
    """The CPU quotas in thousandths of a core."""
    for group in groups:
        if not group.controllers:
            quota, _, period = _read(group.folder / "cpu.max").strip().partition(" ")
        elif "cpu" in group.controllers:
            quota = _read(group.folder / "cpu.cfs_quota_us").strip()
            period = _read(group.folder / "cpu.cfs_period_us").strip()
        else:
            continue
        if quota.isdecimal() and period.isdecimal() and int(period) > 0:
            yield max(1, int(quota) * 1000 // int(period))


def _iter_memory_limits(groups: tuple[_Cgroup, ...]) -> Iterator[int]:
    """The memory limits in bytes. Without one, v2 has `max` and v1 a number near 2^63, which `min` leaves out."""
    for group in groups:
        if not group.controllers or "memory" in group.controllers:
            limit = _read(group.folder / ("memory.limit_in_bytes" if group.controllers else "memory.max"))
            if limit.strip().isdecimal():
                yield int(limit)


def _read_gpus(root: Path, environ: Mapping[str, str], query: Callable[[], str | None]) -> tuple[Gpu, ...]:
    """The GPUs that the server itself may use: `CUDA_VISIBLE_DEVICES` of the server limits its runs too."""
    gpus = tuple(_iter_queried_gpus(query() or "")) or tuple(_iter_gpu_files(root))
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return gpus[:MOST_GPUS]
    chosen = []
    for name in visible.split(",")[:MOST_GPUS]:
        # CUDA ignores what follows the first entry that it does not know; an index counts in the order of the list.
        wanted = name.strip()
        index = int(wanted) if re.fullmatch("[0-9]{1,4}", wanted) else len(gpus)
        found = [gpu for gpu in gpus if wanted.startswith("GPU-") and gpu.id.startswith(wanted)] or gpus[index:][:1]
        if not found or found[0] in chosen:
            break
        chosen.append(found[0])
    return tuple(chosen)


def _iter_queried_gpus(answer: str) -> Iterator[Gpu]:
    for line in answer.splitlines():
        index, _, uuid = (part.strip() for part in line.partition(","))
        if index.isdecimal() and _GPU_ID.fullmatch(uuid):
            yield Gpu(uuid)


def _iter_gpu_files(root: Path) -> Iterator[Gpu]:
    devices = root / "dev"
    files = [entry for entry in devices.iterdir() if _DEVICE_FILE.fullmatch(entry.name)] if devices.is_dir() else []
    yield from (Gpu(str(index)) for index in range(len(files)))


def _query_nvidia_smi() -> str | None:
    command = ("nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader")
    try:
        done = subprocess.run(command, capture_output=True, timeout=GPU_QUERY_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout[:LARGEST_FACT_BYTES].decode(errors="replace") if done.returncode == 0 else None


def _read(path: Path) -> str:
    return read_kernel_file(str(path), LARGEST_FACT_BYTES).decode(errors="replace")
