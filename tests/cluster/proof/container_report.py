"""What a container says of itself: ids, environment, cgroup limits, mounts. The script runs in any busybox."""

from dataclasses import dataclass, field
from functools import cached_property

_BEGIN, _END = "@@", "@@."
INSPECT = r"""
say() { echo "@@ $1"; shift; "$@" 2>&1; echo "@@."; }
first() { for file; do [ -r "$file" ] && cat "$file" && return; done; }
say ids sh -c 'id -u; id -g; id -G'
say env sh -c "tr '\0' '\n' </proc/1/environ"
say memory first /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max
say cpu first /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu.max
say shares first /sys/fs/cgroup/cpu/cpu.shares /sys/fs/cgroup/cpu.weight
say mounts cat /proc/mounts
say folder pwd
for path; do
  say "stat $path" stat -L -c '%a %u %g' "$path"
  if [ -d "$path" ]
  then say "write $path" sh -c "echo written >'$path/proof' && cat '$path/proof' && stat -c %g '$path/proof'"
  else say "content $path" cat "$path"
  fi
done
"""
"""Takes paths as arguments: files are printed, directories written to."""
UNLIMITED_BYTES = 1 << 60
"""A memory limit of more is none; cgroup version 1 has no word for it."""
PERIOD_MICROSECONDS = 100_000
"""How long the period is to which the kubelet's CPU quota refers."""


def make_inspection(*paths: str) -> list[str]:
    """The arguments of `sh` for a container that reports on itself."""
    return ["-c", INSPECT, "inspect", *paths]


@dataclass(frozen=True)
class ContainerReport:
    """A report, by section."""

    sections: dict[str, list[str]] = field(default_factory=dict)

    @cached_property
    def envs(self) -> dict[str, str]:
        """The environment of the container's first process."""
        return dict(line.split("=", 1) for line in self.sections["env"] if "=" in line)

    @property
    def user(self) -> int:
        return int(self.sections["ids"][0])

    @property
    def group(self) -> int:
        return int(self.sections["ids"][1])

    @property
    def groups(self) -> set[int]:
        """All groups, with the first one."""
        return {int(word) for word in self.sections["ids"][2].split()}

    @property
    def memory_bytes(self) -> int | None:
        """The cgroup's limit."""
        (text,) = self.sections["memory"]
        return None if text == "max" or int(text) > UNLIMITED_BYTES else int(text)

    @property
    def cpu_limit(self) -> float | None:
        """The cgroup's limit in cores."""
        quota = self.sections["cpu"][0].split()[0]  # version 2 also has the period
        return None if quota in ("-1", "max") else int(quota) / PERIOD_MICROSECONDS

    @property
    def cpu_shares(self) -> int | None:
        """The weight that the request has; None with cgroup version 2, whose scale depends on the runtime."""
        is_version_2 = "cgroup2 /sys/fs/cgroup " in "\n".join(self.sections["mounts"])
        return None if is_version_2 else int(self.sections["shares"][0])

    @property
    def gpus(self) -> list[str]:
        """The ids of its GPUs, by the variable that a device plugin sets only for containers that have some."""
        name = "NVIDIA_VISIBLE_DEVICES"
        return self.envs[name].split(",") if name in self.envs else []

    def find_mount(self, path: str) -> str | None:
        """The options of what is mounted at a path."""
        found = [line.split() for line in self.sections["mounts"] if line.split()[1] == path]
        return found[-1][3] if found else None

    def find_file_system(self, path: str) -> str | None:
        """The type of what is mounted at a path."""
        found = [line.split() for line in self.sections["mounts"] if line.split()[1] == path]
        return found[-1][2] if found else None

    def get_mode(self, path: str) -> str:
        """Mode, user and group of a file or directory: `440 0 1000`."""
        (line,) = self.sections[f"stat {path}"]
        return line

    def get_content(self, path: str) -> str:
        """The lines of a file."""
        return "\n".join(self.sections[f"content {path}"])

    def get_written(self, path: str) -> list[str]:
        """What became of a file that was written to a directory: `written`, and its group; or an error."""
        return self.sections[f"write {path}"]


def read_report(log: str) -> ContainerReport:
    """Parse what the container printed."""
    sections: dict[str, list[str]] = {}
    name: str | None = None
    for line in log.splitlines():
        if line.endswith(_END):  # also after a file without a newline at its end
            if name is not None and line != _END:
                sections[name].append(line.removesuffix(_END))
            name = None
        elif line.startswith(f"{_BEGIN} "):
            name = line.removeprefix(f"{_BEGIN} ")
            sections[name] = []
        elif name is not None:
            sections[name].append(line)
    return ContainerReport(sections)
