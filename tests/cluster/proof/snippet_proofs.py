"""What each snippet of the seeds must become in a pod, by the name of its file in `tests/data/seeds`.

Blanks count as well: what a snippet does not name, its pod must not have. A machine of a test has neither 10 cores nor
32 GiB: snippets that ask for those run scaled down (`scale_down`), and as written they must wait for the right reason.
"""

import copy
from dataclasses import dataclass, field, replace
from typing import Any

from runyard.spec.kubernetes.quantity import Quantity

CPU_SCALE = 100
"""10 cores become 100m: with less, a limit of the same scale throttles the program to a crawl."""
MEMORY_SCALE = 1024
"""32 GiB become 32 MiB."""
GIB = 1 << 30
Amounts = dict[str, Any]

PROFILES = "id: 1xa100\nresources: {gpu: 1, mem: 40Mi}\nnode_selector: {gpu: a100}\n"
"""What the admin prepared under the name that the seeds use: as large as fits a machine of a test."""
SECRETS = {
    "my-secret-key": "the key's value",
    "CDSETOOL_ESA_USER": "ada",
    "CDSETOOL_ESA_PASSWORD": "p4ss $word 'of' \"ada\"",
}
NODE_LABELS = {"selectorKey": "selectValue", "gpu": "a100"}
"""Labels that snippets select."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the pod of a snippet has, and nothing beside it."""

    cpu_millis: int | None = None
    cpu_limit_millis: int | None = None
    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    gpus: int = 0
    envs: dict[str, str] = field(default_factory=dict)
    user: int | None = None
    group: int | None = None
    fs_group: int | None = None
    claims: dict[str, str] = field(default_factory=dict)
    """Sizes of the claims that the run owns, by mount path."""
    scratch: dict[str, str] = field(default_factory=dict)
    """Sizes of ephemeral volumes, by mount path."""
    node_selector: dict[str, str] = field(default_factory=dict)

    @property
    def is_large(self) -> bool:
        """Whether it is more than a machine of a test has."""
        return (self.cpu_millis or 0) >= 6000 or (self.memory_bytes or 0) >= 32 * GIB

    def scale_down(self) -> "Expected":
        """The same of the scaled snippet."""
        return replace(
            self,
            cpu_millis=_divide(self.cpu_millis, CPU_SCALE),
            cpu_limit_millis=_divide(self.cpu_limit_millis, CPU_SCALE),
            memory_bytes=_divide(self.memory_bytes, MEMORY_SCALE),
            memory_limit_bytes=_divide(self.memory_limit_bytes, MEMORY_SCALE),
        )


def _divide(amount: int | None, by: int) -> int | None:
    return None if amount is None else -(-amount // by)  # rounded up, as the limit is


def scale_down(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a run with a hundredth of the CPUs and a 1024th of the memory, in the form that they have."""
    scaled = copy.deepcopy(fields)
    resources = scaled["resources"]
    for name, scale in (("cpu", CPU_SCALE), ("mem", MEMORY_SCALE)):
        if name in resources:
            amount = resources[name]
            is_sides = isinstance(amount, dict)
            resources[name] = (
                {side: _scale(value, scale) for side, value in amount.items()} if is_sides else _scale(amount, scale)
            )
    return scaled


def _scale(amount: Any, scale: int) -> str:
    millis = Quantity.parse(str(amount)).milli_value // scale
    return f"{millis}m" if millis % 1000 else str(millis // 1000)


MEM = Expected(memory_bytes=32 * GIB, memory_limit_bytes=-(-32 * GIB * 11 // 10))
"""32Gi without a limit: the limit is the request × 1.1, the platform's figure."""
WHOLE = replace(MEM, cpu_millis=8000, gpus=1)
CPU = Expected(cpu_millis=10_000)
PVC = Expected(claims={"/data": "10Gi"})
DISK = Expected(scratch={"/shared": "10Gi"})
ENVS = Expected(envs={"ENV1": "VALU123123", "ENV2": "VALU123123"})
SECRET = Expected(envs={"my-secret-key": SECRETS["my-secret-key"]})

PROOFS: dict[str, Expected] = {
    "000-node-selector.yaml": Expected(node_selector={"selectorKey": "selectValue"}),
    "000-volumes.yaml": PVC,
    "000-cpu.yaml": replace(CPU, cpu_limit_millis=12_000),
    "000-mem.yaml": Expected(memory_bytes=32 * GIB, memory_limit_bytes=64 * GIB),
    "000-gpu.yaml": Expected(gpus=1),
    "000-secrets.yaml": SECRET,
    "000-envs.yaml": ENVS,
    "000-fs-group.yaml": Expected(fs_group=1000),
    "000-run-as-user.yaml": Expected(user=1000),
    "000-run-as-group.yaml": Expected(group=1000),
    "000-resources.yaml": WHOLE,
    "001-resources.yaml": WHOLE,
    "002-resources.yaml": replace(WHOLE, scratch={"/shared": "10Gi"}),
    "002-run.py": replace(MEM, cpu_millis=6000, fs_group=8877, claims={"/app/files": "350Gi"}),
    "002-profile.py": Expected(
        memory_bytes=40 << 20,
        memory_limit_bytes=44 << 20,
        gpus=1,
        node_selector={"gpu": "a100"},
        claims={"/local-data": "10Gi"},
    ),
    "002-volumes.yaml": PVC,
    "002-volumes.py": PVC,
    "002-cpu.yaml": CPU,
    "002-cpu.py": CPU,
    "002-mem.yaml": MEM,
    "002-mem.py": MEM,
    "002-gpu.yaml": Expected(gpus=1),
    "002-gpu.py": Expected(gpus=1),
    "002-disk.yaml": DISK,
    "002-disk.py": DISK,
    "002-secrets.yaml": SECRET,
    "002-secrets.py": Expected(envs={name: SECRETS[name] for name in ("CDSETOOL_ESA_USER", "CDSETOOL_ESA_PASSWORD")}),
    "002-envs.yaml": ENVS,
    "002-envs.py": Expected(
        envs={"HF_HOME": "/local-data/huggingface", "TRANSFORMERS_CACHE": "/local-data/huggingface"}
    ),
    "002-fs-group.yaml": Expected(fs_group=1000),
    "002-fs-group.py": Expected(fs_group=8877),
    "002-run-as-user.yaml": Expected(user=1000),
    "002-run-as-user.py": Expected(user=1000),
    "002-run-as-group.yaml": Expected(group=1000),
    "002-run-as-group.py": Expected(group=1000),
}

LARGE = sorted(name for name, expected in PROOFS.items() if expected.is_large)
REFUSED_FLATTENED = {
    "002-resources.yaml": ("cpu", "mem", "gpu", "disk"),
    "002-cpu.yaml": ("cpu",),
    "002-mem.yaml": ("mem",),
    "002-gpu.yaml": ("gpu",),
    "002-disk.yaml": ("disk",),
    "002-volumes.yaml": (),
    "002-envs.yaml": (),
}
"""Snippets that lost their indentation in the text, and the fields of `resources` among them; the API refuses them."""
