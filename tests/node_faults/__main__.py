"""`python -m tests.node_faults [--pods N] [--cut SECONDS] [--stall SECONDS]`: faults, and what was found after each."""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from testbed.cluster import Cluster
from testbed.faults import FaultPlan, FaultProxy
from testbed.pytest_plugin import kubernetes_version
from testbed.site import Options
from tests.cluster.node.agent_bed import NODE, POLICY_FLAGS, AgentBed, find_condition, open_bed, proxied, wait_for
from tests.cluster.node.test_faults import (
    OFFER,
    TENANT,
    check_ledger,
    check_once,
    find_link,
    make_plan,
    make_pods,
    wait_all_running,
)
from tests.cluster.node.test_seed import make_fake_class

SETTLE_SECONDS = 300.0
STORM_SECONDS = 60.0
KILLS = 5


def main() -> int:
    """Run every fault; 0 if no rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.node_faults", description=__doc__)
    parser.add_argument("--pods", type=int, default=50)
    parser.add_argument("--cut", type=float, default=600.0, metavar="SECONDS")
    parser.add_argument("--stall", type=float, default=120.0, metavar="SECONDS")
    given = parser.parse_args()
    version = kubernetes_version()
    options = Options(kubernetes=version, node=False, dns=False, storage=False, flags=POLICY_FLAGS)
    provider_options = Options(kubernetes=version, node=False, dns=False, storage=False, fake_nodes=3, audit=True)
    with (
        _up("faults-local", options) as local,
        _up("faults-provider", provider_options) as provider,
        tempfile.TemporaryDirectory() as folder,
    ):
        provider.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(make_fake_class()))
        with open_bed(local, provider, TENANT, Path(folder), offer=OFFER) as bed:
            return Series(bed, pods=given.pods, cut=given.cut, stall=given.stall).run()


@contextmanager
def _up(name: str, options: Options) -> Iterator[Cluster]:
    cluster = Cluster.up(f"{name}-{os.getpid()}", options, outlives_us=False)
    try:
        yield cluster
    finally:
        cluster.down()


class Series:
    """One fault after another; each begins with an empty node, and its pods are counted afterwards."""

    def __init__(self, bed: AgentBed, *, pods: int, cut: float, stall: float) -> None:
        self._bed = bed
        self._pods = pods
        self._cut_seconds = cut
        self._stall_seconds = stall
        self._found: list[dict[str, Any]] = []

    def run(self) -> int:
        """Print what was found; 1 if a rule was broken."""
        faults: dict[str, Callable[[FaultProxy], dict[str, Any]]] = {
            "agent killed": self._kill_agent,
            "provider's apiserver killed": self._kill_provider,
            "both restarts at once": self._kill_both,
            "link reset": self._reset,
            "link stalled": self._stall,
            "link cut": self._cut,
        }
        with proxied(self._bed) as proxy:
            self._bed.start()
            self._bed.wait_ready()
            self._bed.wait_filling("small")
            for name, act in faults.items():
                self._found.append({"fault": name, **self._try(act, proxy)})
                sys.stderr.write(f"{json.dumps(self._found[-1])}\n")
        sys.stdout.write(f"{json.dumps(self._found, indent=1)}\n")
        return int(any(one["broken"] for one in self._found))

    def _try(self, act: Callable[[FaultProxy], dict[str, Any]], proxy: FaultProxy) -> dict[str, Any]:
        began, since = time.monotonic(), self._ready_since()
        faults = sum(proxy.counts.values())
        try:
            figures = act(proxy)
            self._check(since)
            broken = ""
        except AssertionError as error:
            figures, broken = {}, str(error)
        figures |= {"pods": self._pods, "faults": sum(proxy.counts.values()) - faults}
        self._clear()
        return {**figures, "seconds": round(time.monotonic() - began), "broken": broken}

    def _check(self, ready_since: tuple[str, str]) -> None:
        """Raise if a pod was lost or doubled, the ledger is wrong, or the node was not Ready all the time."""
        remote = wait_all_running(self._bed, self._pods, seconds=SETTLE_SECONDS)
        check_once(self._bed, remote)
        check_ledger(self._bed, self._pods)
        if self._ready_since() != ready_since:
            raise AssertionError(f"the node is Ready={self._ready_since()}, and was {ready_since}")

    def _ready_since(self) -> tuple[str, str]:
        ready = find_condition(self._bed.get("node", NODE), "Ready")
        return ready["status"], ready["lastTransitionTime"]

    def _clear(self) -> None:
        bed = self._bed
        bed.local.kubectl("delete", "pods", "--all", "--wait=false")
        wait_for(
            "no pods on either side",
            lambda: not bed.get("pods")["items"] and not bed.get_remote("pods")["items"],
            seconds=SETTLE_SECONDS,
        )

    def _kill_agent(self, _proxy: FaultProxy) -> dict[str, Any]:
        self._bed.apply(*make_pods("agent", self._pods))
        for _ in range(KILLS):
            time.sleep(0.7)  # somewhere between bindings, starts and statuses
            self._bed.processes[-1].kill()
            self._bed.start()
        return {"kills": KILLS}

    def _kill_provider(self, _proxy: FaultProxy) -> dict[str, Any]:
        self._bed.apply(*make_pods("provider", self._pods))
        time.sleep(0.5)
        self._restart(self._bed.provider)
        return {"kills": 1}

    def _kill_both(self, _proxy: FaultProxy) -> dict[str, Any]:
        self._bed.apply(*make_pods("both", self._pods))
        time.sleep(0.5)
        self._bed.processes[-1].kill()
        self._restart(self._bed.provider, self._bed.local)
        self._bed.start()
        return {"kills": 3}

    def _restart(self, *clusters: Cluster) -> None:
        for cluster in clusters:
            cluster.kill("kube-apiserver")
        time.sleep(1.0)
        for cluster in clusters:
            cluster.start("kube-apiserver")
        for cluster in clusters:
            cluster.wait_ready()

    def _reset(self, proxy: FaultProxy) -> dict[str, Any]:
        """Three of five requests break for a minute, and every open connection now and then."""
        proxy.plan = make_plan("reset")
        self._bed.apply(*make_pods("reset", self._pods))
        ends_at = time.monotonic() + STORM_SECONDS
        while time.monotonic() < ends_at:
            time.sleep(3.0)
            proxy.sever()
        proxy.plan = FaultPlan()
        return {"lasted": STORM_SECONDS}

    def _stall(self, proxy: FaultProxy) -> dict[str, Any]:
        """Half of the pods run before. Connections that stalled are left to the agent, which must give them up."""
        half = self._start_half("stall")
        proxy.plan = make_plan("stalled")
        proxy.sever()
        self._bed.apply(*make_pods("stall-late", self._pods - half))
        wait_for("the condition", lambda: find_link(self._bed, "False"), seconds=120)
        time.sleep(self._stall_seconds)
        proxy.plan = FaultPlan()
        return {"lasted": self._stall_seconds}

    def _cut(self, proxy: FaultProxy) -> dict[str, Any]:
        half = self._start_half("cut")
        before = wait_all_running(self._bed, half)
        proxy.refuse(self._cut_seconds)
        proxy.sever()
        ends_at = time.monotonic() + self._cut_seconds
        self._bed.apply(*make_pods("cut-late", self._pods - half))
        wait_for("the condition", lambda: find_link(self._bed, "False"), seconds=120)
        time.sleep(max(0.0, ends_at - time.monotonic()))
        after = wait_all_running(self._bed, self._pods, seconds=SETTLE_SECONDS)
        if not before.items() <= after.items():
            raise AssertionError("pods that ran before the cut are others now")
        return {"lasted": self._cut_seconds, "ran_before": half}

    def _start_half(self, prefix: str) -> int:
        half = self._pods // 2
        self._bed.apply(*make_pods(prefix, half))
        wait_all_running(self._bed, half)
        return half


if __name__ == "__main__":
    sys.exit(main())
