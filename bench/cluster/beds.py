"""The clusters of the bench: one with a node and real containers, one with nodes that KWOK pretends."""

import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bench.cluster.fake_kubelet import PORT
from bench.cluster.raw_api import RawApi
from bench.local.processes import TICK_SECONDS
from bench.pods import each
from bench.report import progress
from testbed import controlplane
from testbed.cluster import Cluster, prepare
from testbed.site import Options

PODS_PER_NODE = 110
"""How many pods a node takes."""
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")


@dataclass(frozen=True, slots=True)
class Bed:
    """A cluster, and who uses how much CPU time of it."""

    cluster: Cluster
    _kubelet: IO[bytes] | None = None

    def end_log(self, pod: str) -> None:
        """Let the follows of a held pod's log end, as a kubelet does when the pod has ended."""
        if self._kubelet is not None:
            self._kubelet.write(f"{pod}\n".encode())
            self._kubelet.flush()

    @property
    def host_ip(self) -> str:
        """This machine's address, as the cluster reaches it."""
        return self.cluster.site.addresses.host_ip

    @property
    def audit_log(self) -> Path:
        """Every request, as the apiserver saw it."""
        return self.cluster.site.logs / "audit.log"

    @asynccontextmanager
    async def connect(self, agent: str) -> AsyncIterator[RawApi]:
        """A raw client, known in the audit log by the agent."""
        context = ssl.create_default_context(cafile=str(self.cluster.ca_file))
        token = controlplane.admin_token(self.cluster.site)
        async with RawApi(self.cluster.server, token=token, context=context, agent=agent) as api:
            yield api

    async def create_namespace(self, api: RawApi, name: str) -> None:
        """A namespace whose default service account exists: without it no pod is created."""
        await api.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        await api.wait_found(f"/api/v1/namespaces/{name}/serviceaccounts/default")

    def describe_flags(self) -> str:
        """The flags of the controllers that bound how fast Jobs become pods."""
        wanted = ("--kube-api-qps", "--kube-api-burst", "--concurrent-job-syncs")
        manager = [flag for flag in controlplane.controller_manager_flags(self.cluster.site) if flag.startswith(wanted)]
        scheduler = [flag for flag in controlplane.scheduler_flags(self.cluster.site) if flag.startswith(wanted)]
        return f"kube-controller-manager {' '.join(manager)}, kube-scheduler {' '.join(scheduler)}, etcd without fsync"

    def read_cpu(self) -> Mapping[str, float]:
        """CPU seconds that each component of the cluster has used so far; containers are not in it."""
        pids = {one.name: one.pid for one in self.cluster.components().values() if one.is_running}
        output = self.cluster.run_inside(["cat", *(f"/proc/{pid}/stat" for pid in pids.values())])
        used = {}
        for name, line in zip(pids, output.splitlines(), strict=True):
            fields = line.rpartition(")")[2].split()
            used[name] = (int(fields[11]) + int(fields[12])) * TICK_SECONDS
        return used


@contextmanager
def open_real_bed(*, has_audit: bool) -> Iterator[Bed]:
    """A cluster with a node that runs containers."""
    with open_cluster("bench-real", Options(dns=False, storage=False, audit=has_audit)) as bed:
        yield bed


@asynccontextmanager
async def open_fake_bed(*, most_pods: int) -> AsyncIterator[Bed]:
    """A cluster without a node: KWOK pretends as many as so many pods need, and `fake_kubelet` their logs."""
    nodes = -(-most_pods // PODS_PER_NODE) + 1
    with open_cluster("bench-fake", Options(node=False, fake_nodes=nodes)) as plain, _run_kubelet(plain) as bed:
        async with bed.connect("bench") as api:
            await _finish_nodes(bed, api, nodes)
        yield bed


async def _finish_nodes(bed: Bed, api: RawApi, count: int) -> None:
    """Let every pod onto the nodes, and let the apiserver find their logs."""

    async def finish(number: int) -> None:
        path = f"/api/v1/nodes/fake-{number}"
        await api.merge(path, {"spec": {"taints": None}})
        status = {
            "addresses": [{"type": "InternalIP", "address": bed.host_ip}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": PORT}},
        }
        await api.merge(f"{path}/status", {"status": status})

    await each(finish, count=count, doing="nodes")


@contextmanager
def open_cluster(name: str, options: Options) -> Iterator[Bed]:
    """A cluster of that name, for the time of the block."""
    prepare(options)
    Cluster.up(name, options, outlives_us=False, say=progress)
    cluster = Cluster.find(name)
    try:
        yield Bed(cluster)
    finally:
        cluster.down()


@contextmanager
def _run_kubelet(bed: Bed) -> Iterator[Bed]:
    certificate, key = bed.cluster.certificate("fake-kubelet", hosts=[bed.host_ip])
    argv = [sys.executable, "-m", "bench.cluster.fake_kubelet", bed.host_ip, str(certificate), str(key)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, env=dict(os.environ)) as process:
        try:
            yield Bed(bed.cluster, process.stdin)
        finally:
            process.kill()
