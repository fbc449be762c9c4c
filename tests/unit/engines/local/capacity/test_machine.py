import os
from pathlib import Path

import pytest

from runyard.engines.local.capacity.machine import MOST_GPUS, Gpu, Machine, gpu_environment, read_machine

MEMINFO = "MemTotal:       16000000 kB\nMemFree:        1000 kB\n"
V2_MOUNT = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
V1_MOUNTS = (
    "31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n"
    "32 23 0:28 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n"
)
CORES = len(os.sched_getaffinity(0))
SMI = "0, GPU-aaaa1111-0000-0000-0000-000000000000\n1, GPU-bbbb2222-0000-0000-0000-000000000000\n"


def write(root: Path, files: dict[str, str]) -> None:
    for name, content in ({"proc/meminfo": MEMINFO} | files).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)


def read(root: Path, *, smi: str | None = None, visible: str | None = None) -> Machine:
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    return read_machine(root, root=root, environ=environ, query_gpus=lambda: smi)


def test_hardware_counts_when_no_cgroup_is_mounted(tmp_path: Path) -> None:
    write(tmp_path, {})
    machine = read(tmp_path)
    assert (machine.cpu_millis, machine.memory_bytes, machine.gpus) == (CORES * 1000, 16000000 * 1024, ())


def test_lowest_limit_of_the_parents_counts_when_cgroup_is_v2(tmp_path: Path) -> None:
    group = "sys/fs/cgroup"
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/a.slice/b.service\n",
            "proc/self/mountinfo": V2_MOUNT,
            f"{group}/a.slice/cpu.max": "50000 100000\n",
            f"{group}/a.slice/memory.max": "max\n",
            f"{group}/a.slice/b.service/cpu.max": "max 100000\n",
            f"{group}/a.slice/b.service/memory.max": "1073741824\n",
        },
    )
    machine = read(tmp_path)
    assert (machine.cpu_millis, machine.memory_bytes) == (500, 1 << 30)


def test_limits_count_when_cgroup_is_v1(tmp_path: Path) -> None:
    group = "sys/fs/cgroup"
    write(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/x\n3:cpu,cpuacct:/x\n1:name=systemd:/x\n",
            "proc/self/mountinfo": V1_MOUNTS,
            f"{group}/cpu,cpuacct/x/cpu.cfs_quota_us": "25000\n",
            f"{group}/cpu,cpuacct/x/cpu.cfs_period_us": "100000\n",
            f"{group}/memory/memory.limit_in_bytes": "9223372036854771712\n",
            f"{group}/memory/x/memory.limit_in_bytes": "2147483648\n",
        },
    )
    machine = read(tmp_path)
    assert (machine.cpu_millis, machine.memory_bytes) == (250, 2 << 30)


def test_mounted_cgroup_counts_when_the_path_is_that_of_the_host(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/../../docker/0123\n",
            "proc/self/mountinfo": V2_MOUNT,
            "sys/fs/cgroup/memory.max": "1048576\n",
        },
    )
    assert read(tmp_path).memory_bytes == 1 << 20


def test_memory_is_an_error_when_proc_does_not_say_it(tmp_path: Path) -> None:
    write(tmp_path, {"proc/meminfo": "nothing\n"})
    with pytest.raises(OSError, match="/proc/meminfo does not say how much memory"):
        read(tmp_path)


def test_this_machine_is_read_when_nothing_is_planted(tmp_path: Path) -> None:
    machine = read_machine(tmp_path)
    assert 0 < machine.cpu_millis <= CORES * 1000
    assert machine.memory_bytes > 1 << 20
    size, free = machine.measure_disk()
    assert size >= free > 0
    assert machine.allocatable()["ephemeral-storage"] == size


@pytest.mark.parametrize(
    ("visible", "ids"),
    [
        (None, ["GPU-aaaa", "GPU-bbbb"]),
        ("1", ["GPU-bbbb"]),
        ("1,0", ["GPU-bbbb", "GPU-aaaa"]),
        ("GPU-bbbb", ["GPU-bbbb"]),
        ("", []),
        ("-1", []),
        ("0,7,1", ["GPU-aaaa"]),
    ],
)
def test_gpus_are_those_of_the_server_when_it_sees_only_some(
    tmp_path: Path, visible: str | None, ids: list[str]
) -> None:
    write(tmp_path, {})
    assert [gpu.id[:8] for gpu in read(tmp_path, smi=SMI, visible=visible).gpus] == ids


def test_device_files_are_counted_when_nvidia_smi_does_not_answer(tmp_path: Path) -> None:
    write(tmp_path, {"dev/nvidia0": "", "dev/nvidia3": "", "dev/nvidiactl": "", "dev/nvidia-uvm": ""})
    machine = read(tmp_path)
    assert machine.gpus == (Gpu("0"), Gpu("1"))
    assert machine.allocatable()["nvidia.com/gpu"] == 2


def test_answer_of_nvidia_smi_is_bounded_when_it_lists_too_many(tmp_path: Path) -> None:
    write(tmp_path, {})
    smi = "".join(f"{index}, GPU-{index:08x}\n" for index in range(MOST_GPUS + 10))
    assert len(read(tmp_path, smi=smi + "Unable to determine\n").gpus) == MOST_GPUS


def test_no_gpu_is_visible_when_a_run_asked_for_none() -> None:
    assert gpu_environment(())["CUDA_VISIBLE_DEVICES"] == ""
    assert gpu_environment(())["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_given_gpus_are_visible_when_a_run_asked_for_them() -> None:
    variables = gpu_environment((Gpu("GPU-a"), Gpu("GPU-b")))
    assert variables["CUDA_VISIBLE_DEVICES"] == variables["NVIDIA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
