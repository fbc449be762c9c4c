"""`python -m tests.node_load`: pods of several shapes, with lives of seconds, on nodes of KWOK; prints the counts."""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from testbed.cluster import Cluster
from testbed.pytest_plugin import kubernetes_version
from testbed.site import Options
from tests.cluster.node.agent_bed import NODE, POLICY_FLAGS, AgentBed, open_bed, wait_for
from tests.cluster.node.test_seed import FAKE, make_fake_class
from tests.node_load.judge import find_differences, find_overcommit, sum_bound

SHAPES = {
    "tiny": {"cpu": "500m", "memory": "1Gi", "gpu": "0"},
    "one": {"cpu": "7625m", "memory": "32900825Ki", "gpu": "1"},
    "two": {"cpu": "15", "memory": "60Gi", "gpu": "2"},
}
CAPACITY = {"cpu": "63", "memory": "263567056Ki", "nvidia.com/gpu": "8", "pods": "40"}
SAMPLE_SECONDS = 2.0
SETTLE_SECONDS = 20.0
"""Within this time the figures are the truth, once there is a leader: the lease of a killed one outlives it by 15 s."""
KILL_EVERY_SECONDS = 60.0


def main() -> int:
    """Run the load; 0 if no rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.node_load", description=__doc__)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=1200.0)
    parser.add_argument("--seed", type=int, default=15)
    given = parser.parse_args()
    version = kubernetes_version()
    options = Options(kubernetes=version, node=False, dns=False, storage=False, fake_nodes=2, flags=POLICY_FLAGS)
    cluster = Cluster.up(f"load-{os.getpid()}", options, outlives_us=False)
    try:
        cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(make_fake_class()))
        shapes = [
            {"name": name, "handler": "nvidia", "limits": limits, "remote_class": FAKE}
            for name, limits in SHAPES.items()
        ]
        offer = {"capacity": CAPACITY, "shapes": shapes}
        with (
            tempfile.TemporaryDirectory() as folder,
            open_bed(cluster, cluster, "provider", Path(folder), offer=offer) as bed,
        ):
            bed.start()
            bed.wait_ready()
            bed.wait_filling(*SHAPES)
            return Load(bed, pods=given.pods, seconds=given.seconds, seed=given.seed).run()
    finally:
        cluster.down()


class Load:
    """Creates pods at an even pace, deletes them after their lives, kills the agent now and then, and samples."""

    def __init__(self, bed: AgentBed, *, pods: int, seconds: float, seed: int) -> None:
        self._bed = bed
        self._count = pods
        self._seconds = seconds
        self._random = random.Random(seed)
        self._created = 0
        self._ends: dict[str, float] = {}
        self._broken: list[str] = []
        self._samples = self._settled = self._kills = self._most_waiting = 0
        self._longest_settle = 0.0

    def run(self) -> int:
        """Until every pod was created and is gone."""
        began = sampled = killed = time.monotonic()
        while time.monotonic() - began < self._seconds or self._created < self._count:
            now = time.monotonic()
            due = min(self._count, int(self._count * (now - began) / self._seconds) + 1)
            if due > self._created:
                self._create(due - self._created)
            self._delete_due(now)
            if now - killed >= KILL_EVERY_SECONDS:
                killed = now
                self._bed.processes[-1].kill()
                self._bed.start()
                self._kills += 1
            if now - sampled >= SAMPLE_SECONDS:
                sampled = now
                self._sample()
            time.sleep(0.2)
        self._bed.local.kubectl("delete", "pods", "--all", "--wait=false")
        wait_for("an empty node", self._is_empty, seconds=180)
        return self._report(time.monotonic() - began)

    def _create(self, count: int) -> None:
        pods = []
        for _ in range(count):
            name = f"load-{self._created}"
            self._created += 1
            self._ends[name] = time.monotonic() + self._random.uniform(2, 30)
            container = {"name": "main", "image": "busybox:1.36", "command": ["sleep", "3600"]}
            pods.append(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": name, "namespace": "default"},
                    "spec": {
                        "runtimeClassName": self._random.choice([*SHAPES]),
                        "terminationGracePeriodSeconds": 1,
                        "containers": [container],
                    },
                }
            )
        self._bed.apply(*pods)

    def _delete_due(self, now: float) -> None:
        due = [name for name, ends_at in self._ends.items() if ends_at <= now]
        for name in due:
            del self._ends[name]
        if due:
            self._bed.local.kubectl("delete", "pod", *due, "--wait=false", "--ignore-not-found")

    def _sample(self) -> None:
        """No more is ever bound than there is; once nothing changes, the node says what is left to the last byte."""
        pods = self._bed.get("pods")["items"]
        self._samples += 1
        self._most_waiting = max(self._most_waiting, sum("nodeName" not in pod["spec"] for pod in pods))
        if found := find_overcommit(sum_bound(pods, NODE), CAPACITY):
            self._broken.append(f"sample {self._samples}: over-committed: {found}")
        if self._samples % 2 == 0:
            self._compare()

    def _compare(self) -> None:
        """Nobody creates or deletes meanwhile: the figures must come to be the truth."""
        began, ends_at = time.monotonic(), time.monotonic() + SETTLE_SECONDS
        while True:
            pods = self._bed.get("pods")["items"]
            differences = find_differences(sum_bound(pods, NODE), self._bed.get("node", NODE))
            if not differences:
                self._settled += 1
                self._longest_settle = max(self._longest_settle, time.monotonic() - began)
                return
            if "leading" not in self._bed.processes[-1].log.read_text():
                ends_at = time.monotonic() + SETTLE_SECONDS
            elif time.monotonic() > ends_at:
                self._broken.append(f"sample {self._samples}: {differences}")
                return
            time.sleep(0.3)

    def _is_empty(self) -> bool:
        pods = self._bed.get("pods")["items"] + self._bed.get_remote("pods")["items"]
        node: dict[str, Any] = self._bed.get("node", NODE)
        return not pods and not find_differences(sum_bound((), NODE), node)

    def _report(self, seconds: float) -> int:
        figures = {
            "pods": self._created,
            "seconds": round(seconds),
            "samples": self._samples,
            "ledger_was_truth": self._settled,
            "longest_settle_seconds": round(self._longest_settle, 1),
            "agent_kills": self._kills,
            "most_waiting": self._most_waiting,
            "rules_broken": self._broken,
        }
        sys.stdout.write(f"{json.dumps(figures, indent=1)}\n")
        return 1 if self._broken else 0


if __name__ == "__main__":
    sys.exit(main())
