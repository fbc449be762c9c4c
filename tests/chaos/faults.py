"""What breaks during a storm, and when: drawn by the seed, done to the real parts."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from testbed.cluster import Cluster
from testbed.errors import TestbedError
from testbed.faults import FaultProxy
from tests.chaos.evidence import Tampering
from tests.chaos.servers import Servers
from tests.chaos.witness import Sighting, Witness

RATES = {
    "cut": 0.01,
    "reset": 0.01,
    "stall": 0.01,
    "delay": 0.03,
    "refuse": 0.002,
    "answer-409": 0.02,
    "answer-429": 0.01,
    "answer-500": 0.01,
    "answer-503": 0.01,
    "lose-answer": 0.02,
    "expire": 0.01,
    "repeat": 0.05,
}
"""Of the fault proxy, per request."""
WEIGHTS: Mapping[str, int] = {
    "server-kill": 8,
    "server-freeze": 2,
    "apiserver-kill": 3,
    "etcd-kill": 2,
    "etcd-compact": 2,
    "kubelet-kill": 3,
    "node-not-ready": 1,
    "pod-delete": 8,
    "job-delete": 6,
    "claim-delete": 3,
    "quota-fill": 3,
    "sever": 4,
}
LASTING = {"server-freeze": (18.0, 30.0), "node-not-ready": (25.0, 50.0), "quota-fill": (3.0, 12.0)}
"""Seconds; others last up to 4. A lease lasts 15 seconds, and a node is NotReady after 20 (`storm.py`)."""
VICTIM_SECONDS = 20.0
"""How long a fault waits for something to delete."""
CONTROL_PLANE = ("apiserver-kill", "etcd-kill", "etcd-compact")
KUBELET = ("kubelet-kill", "node-not-ready")

Victim = TypeVar("Victim")


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """One fault of a storm."""

    at_seconds: float
    kind: str
    seconds: float
    """How long it lasts."""
    choice: float
    """From 0 to 1: chooses the victim among those that are there."""


def plan_faults(seed: int, *, seconds: float, pause_seconds: float, kinds: Mapping[str, int]) -> list[PlannedFault]:
    """The faults of a storm, each kind at least once if there is time for all."""
    rng = random.Random(f"{seed} faults")
    first = list(kinds)
    rng.shuffle(first)
    planned: list[PlannedFault] = []
    at = 0.0
    while True:
        at += rng.uniform(0.2, 1.8) * pause_seconds
        if at >= seconds:
            return planned
        kind = first.pop() if first else rng.choices(list(kinds), list(kinds.values()))[0]
        planned.append(PlannedFault(at, kind, rng.uniform(*LASTING.get(kind, (0.0, 4.0))), rng.random()))


@dataclass(slots=True)
class Injector:
    """Does the faults. At its end every component runs again."""

    cluster: Cluster
    servers: Servers
    proxy: FaultProxy
    witness: Witness
    namespace: str
    counts: Counter[str] = field(default_factory=Counter)
    tamperings: list[Tampering] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Faults that the testbed could not do."""
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)

    async def run(self, planned: list[PlannedFault]) -> None:
        """All of them, each at its time; those of the same component one after the other."""
        begun = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for fault in planned:
                await asyncio.sleep(max(0.0, begun + fault.at_seconds - time.monotonic()))
                group.create_task(self.do(fault))

    async def do(self, fault: PlannedFault) -> None:
        """One fault, from its beginning to its end."""
        act = getattr(self, f"_{fault.kind.replace('-', '_')}")
        async with self._lock(fault):
            try:
                if await act(fault) is not False:
                    self.counts[fault.kind] += 1
            except (TestbedError, OSError) as error:
                self.failures.append(f"{fault.kind}: {error}"[:300])

    def _lock(self, fault: PlannedFault) -> asyncio.Lock:
        family = {**dict.fromkeys(CONTROL_PLANE, "control plane"), **dict.fromkeys(KUBELET, "kubelet")}
        name = family.get(fault.kind, fault.kind.partition("-")[0])
        if name == "server":
            name = f"server {self._choose_server(fault)}"
        return self._locks.setdefault(name, asyncio.Lock())

    def _choose_server(self, fault: PlannedFault) -> int:
        return int(fault.choice * len(self.servers.replicas))

    async def _server_kill(self, fault: PlannedFault) -> None:
        replica = self.servers.replicas[self._choose_server(fault)]
        await replica.kill()
        await asyncio.sleep(fault.seconds)
        await replica.start(waits=False)
        await asyncio.sleep(0.5)

    async def _server_freeze(self, fault: PlannedFault) -> None:
        replica = self.servers.replicas[self._choose_server(fault)]
        replica.freeze()
        await asyncio.sleep(fault.seconds)
        replica.thaw()

    async def _apiserver_kill(self, fault: PlannedFault) -> None:
        await self._kill_and_start("kube-apiserver", fault)

    async def _etcd_kill(self, fault: PlannedFault) -> None:
        await self._kill_and_start("etcd", fault)

    async def _etcd_compact(self, _fault: PlannedFault) -> None:
        """Make a resourceVersion too old for real; the apiserver forgets it only when it starts anew."""
        await asyncio.to_thread(self.cluster.kill, "kube-apiserver")
        await asyncio.to_thread(self.cluster.compact_etcd)
        await asyncio.to_thread(self.cluster.start, "kube-apiserver")
        await asyncio.to_thread(self.cluster.wait_ready)

    async def _kubelet_kill(self, fault: PlannedFault) -> None:
        await self._kill_and_start("kubelet", fault)

    async def _kill_and_start(self, component: str, fault: PlannedFault) -> None:
        await asyncio.to_thread(self.cluster.kill, component)
        await asyncio.sleep(fault.seconds)
        await asyncio.to_thread(self.cluster.start, component)
        if component != "kubelet":
            await asyncio.to_thread(self.cluster.wait_ready)

    async def _node_not_ready(self, fault: PlannedFault) -> None:
        await asyncio.to_thread(self.cluster.freeze, "kubelet")
        await asyncio.sleep(fault.seconds)
        await asyncio.to_thread(self.cluster.thaw, "kubelet")

    async def _pod_delete(self, fault: PlannedFault) -> bool:
        is_forced = fault.choice * 1000 % 1 < 0.5
        query = "?gracePeriodSeconds=0" if is_forced else "?gracePeriodSeconds=5"
        return await self._delete("/api/v1/namespaces/{}/pods/{}", self._list_live_pods, fault, query=query)

    async def _job_delete(self, fault: PlannedFault) -> bool:
        policy = "Background" if fault.choice * 1000 % 1 < 0.7 else "Foreground"
        path = "/apis/batch/v1/namespaces/{}/jobs/{}"
        return await self._delete(path, self._list_jobs, fault, query=f"?propagationPolicy={policy}")

    async def _claim_delete(self, fault: PlannedFault) -> bool:
        path = f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims"

        async def list_claims() -> list[dict[str, Any]]:
            items: list[dict[str, Any]] = (await asyncio.to_thread(self.cluster.api.get, path))["items"]
            return sorted(items, key=lambda item: str(item["metadata"]["creationTimestamp"]))

        found = await _choose_victim(list_claims, fault)
        if found is None:
            return False
        claim = found["metadata"]
        run_id = (claim.get("labels") or {}).get("runyard.io/run", "")
        self.tamperings.append(Tampering(time.time(), "persistentvolumeclaims", claim["name"], run_id))
        await persist(lambda: asyncio.to_thread(self.cluster.api.delete, f"{path}/{claim['name']}"))
        return True

    async def _quota_fill(self, fault: PlannedFault) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/resourcequotas/full"
        hard = {"count/jobs.batch": "0"} if fault.choice < 0.5 else {"pods": "0"}
        metadata = {"name": "full", "namespace": self.namespace}
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}
        await asyncio.to_thread(self.cluster.api.apply, path, quota)
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            await persist(lambda: asyncio.to_thread(self.cluster.api.delete, path))

    async def _sever(self, fault: PlannedFault) -> None:
        await asyncio.to_thread(self.proxy.refuse, fault.seconds)
        await asyncio.to_thread(self.proxy.sever)

    async def _list_live_pods(self) -> list[Sighting]:
        alive = ("Pending", "Running")
        return [one for one in self.witness.list("pods") if not one.is_deleted and one.phase in alive]

    async def _list_jobs(self) -> list[Sighting]:
        return [one for one in self.witness.list("jobs") if not one.is_deleted]

    async def _delete(
        self, path: str, list_victims: Callable[[], Awaitable[list[Sighting]]], fault: PlannedFault, *, query: str
    ) -> bool:
        """Delete one of them; False if there is none. Noted before it is done: the answer may be lost."""
        victim = await _choose_victim(list_victims, fault)
        if victim is None:
            return False
        self.tamperings.append(Tampering(time.time(), victim.resource, victim.name, victim.run_id))
        chosen = path.format(self.namespace, victim.name) + query
        await persist(lambda: asyncio.to_thread(self.cluster.api.delete, chosen))
        return True


async def _choose_victim(list_victims: Callable[[], Awaitable[list[Victim]]], fault: PlannedFault) -> Victim | None:
    """One of them as soon as there is any; None if there is none for long."""
    deadline = time.monotonic() + VICTIM_SECONDS
    while True:
        with suppress(OSError):  # another fault has killed the apiserver
            if victims := await list_victims():
                return victims[int(fault.choice * len(victims))]
        if time.monotonic() > deadline:
            return None
        await asyncio.sleep(0.2)


async def persist(act: Callable[[], Awaitable[object]], *, seconds: float = 120.0) -> None:
    """Repeat an act until the apiserver takes it."""
    deadline = time.monotonic() + seconds
    while True:
        with suppress(OSError, TestbedError):
            await act()
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"the apiserver did not answer for {seconds:.0f} s")
        await asyncio.sleep(0.5)
