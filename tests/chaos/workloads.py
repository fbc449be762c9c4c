"""The runs of a storm, drawn by a seed: what each prints, how it ends, who stops or deletes it.

Every line of a program says which run and which line it is, with a checksum, so that a missing, doubled or foreign line
is recognised. The last line says how many there were and with which exit code the program ends.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

PROJECT = "storm"
IMAGE = "busybox:1.36"
SCRIPT = """\
number=$1 lines=$2 pause=$3 code=$4 shape=$5
i=0
trap 'echo "$number term $i"; exit 143' TERM
[ "$shape" = serve ] && httpd -p 8080 -h /tmp
while [ "$i" -lt "$lines" ]; do
  i=$((i+1))
  echo "$number $i $(((i*7919+number*104729)%1000003))"
  [ "$pause" = 0 ] || sleep "$pause"
done
[ "$shape" = flaky ] && case $HOSTNAME in *[b-n2-6]) code=0 ;; *) code=1 ;; esac
echo "$number end $lines $code"
[ "$shape" = memory ] && exec tail /dev/zero
exit "$code"
"""
"""A run with the shape `flaky` ends well in about half of its pods: the last letter of their names decides."""
ENDLESS_LINES = 1_000_000
PATIENT_SECONDS = 30.0
"""In storms with shorter lives a pod is replaced once: Kubernetes waits 10, 20 and 40 seconds before a new one."""
RESOURCES = {"cpu": {"requests": "2m"}, "mem": {"requests": "8Mi", "limits": "32Mi"}}

Shape = Literal["plain", "flaky", "memory", "serve"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One run: what it is told to do, and what users do to it."""

    number: int
    run_id: str
    shape: Shape = "plain"
    lines: int
    pause_seconds: float
    exit_code: int = 0
    backoff_limit: int = 0
    has_volume: bool = False
    ttl_seconds: int | None = None
    timeout_seconds: int | None = None
    pending_timeout_seconds: int | None = None
    stop_after_seconds: float | None = None
    """After its submit; None: nobody stops it."""
    delete_after_seconds: float | None = None

    @property
    def action(self) -> str:
        """As the API names it."""
        return "serve" if self.shape == "serve" else "job"

    def make_document(self) -> dict[str, Any]:
        """The run as it is submitted."""
        words = (self.number, self.lines, f"{self.pause_seconds:g}", self.exit_code, self.shape)
        spec: dict[str, Any] = {
            "task": f"container+{self.action}://{PROJECT}/t-{self.action}",
            "command": "sh",
            "args": ["-c", SCRIPT, "sh", *map(str, words)],
            "run_as_user": 1000,
            "resources": RESOURCES,
            "grace_period": 5,
        }
        if self.action == "job":
            spec |= {"backoff_limit": self.backoff_limit}
        else:
            spec |= {"service_ports": [8080]}
        if self.has_volume:
            volume = {"volume_type": "persistent_volume_claim", "name": "data", "mount_path": "/data"}
            spec["volumes"] = [{**volume, "spec": {"size": "16Mi"}}]
        durations = {
            "ttl": self.ttl_seconds,
            "timeout": self.timeout_seconds,
            "pending_timeout": self.pending_timeout_seconds,
        }
        spec |= {name: f"{seconds}s" for name, seconds in durations.items() if seconds is not None}
        return {"kind": f"container+{self.action}:run", "id": self.run_id, "spec": spec}


def make_line(number: int, line: int) -> str:
    """A line as the program prints it."""
    return f"{number} {line} {(line * 7919 + number * 104729) % 1000003}"


def iter_workloads(seed: int, *, life_seconds: float) -> Iterator[Workload]:
    """Runs without end, whose programs take `life_seconds` at most if nothing happens to them."""
    rng = random.Random(f"{seed} workloads")
    number = 0
    while True:
        number += 1
        yield _draw(rng, number, seed=seed, life_seconds=life_seconds)


def _draw(rng: random.Random, number: int, *, seed: int, life_seconds: float) -> Workload:
    kinds = {"plain": 50, "failing": 12, "retried": 8, "flaky": 6, "memory": 4, "flood": 6, "volume": 6, "serve": 8}
    kind = rng.choices(list(kinds), list(kinds.values()))[0]
    seconds = rng.uniform(0.05, 1.0) * life_seconds
    pause = rng.choice((0.2, 0.5, 1.0))
    values: dict[str, Any] = {"lines": max(1, int(seconds / pause)), "pause_seconds": pause}
    if kind in ("failing", "retried", "flaky", "memory"):
        # A failure that is retried takes its time again and again.
        values |= {"lines": max(1, values["lines"] // 3)}
    by_kind: dict[str, dict[str, Any]] = {
        "plain": {},
        "failing": {"exit_code": rng.choice((1, 2, 3, 42, 255))},
        "retried": {"exit_code": rng.choice((1, 7)), "backoff_limit": 1, "lines": 3, "pause_seconds": 0.2},
        "flaky": {
            "shape": "flaky",
            "backoff_limit": 3 if life_seconds >= PATIENT_SECONDS else 1,
            "lines": 3,
            "pause_seconds": 0.2,
        },
        "memory": {"shape": "memory"},
        "flood": {"lines": rng.randint(2_000, 10_000), "pause_seconds": 0.0},
        "volume": {"has_volume": True, "pending_timeout_seconds": max(15, int(life_seconds))},
        "serve": {"shape": "serve", "lines": ENDLESS_LINES, "stop_after_seconds": seconds},
    }
    values |= by_kind[kind]
    fate = rng.random()
    if fate < 0.10 and kind != "serve":
        values["stop_after_seconds"] = rng.uniform(0, 1.2) * seconds
    elif fate < 0.20:
        values["delete_after_seconds"] = rng.uniform(0, 1.5) * seconds
    elif fate < 0.30 and kind != "serve":
        values["ttl_seconds"] = rng.choice((1, 10))
    elif fate < 0.33 and kind == "plain":
        values["timeout_seconds"] = max(5, int(seconds * 0.7))
    return Workload(number=number, run_id=f"s{seed}-{number}", **values)
