"""`runyard node` as a process of its own, between a local cluster and a provider."""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.cluster.beds import PODS_PER_NODE, Bed, open_cluster
from bench.cluster.server import PROFILE_SECONDS, PROFILE_VARIABLE
from bench.local.processes import Cpu, Memory, read_cpu, read_memory
from testbed.pytest_plugin import kubernetes_version
from testbed.site import Options
from tests.cluster.node.agent_bed import POLICY_FLAGS, AgentBed, AgentProcess, open_bed
from tests.cluster.node.test_seed import FAKE, make_fake_class

SHAPE = "bench"
TENANT = "tenant"
"""The agent's namespace at the provider."""
NAMESPACE = "default"
"""The namespace of the pods on the local cluster."""
IMAGE = "busybox:1.36"
LOG_FLAG = ("kubelet", "--container-log-max-size=1Gi")
"""A log of one piece: the kubelet would begin a new file after 10 MiB, and show only that."""
LIMITS = {"cpu": "50m", "memory": "64Mi"}
"""Of a pod, unless it states others."""
CLASS_LIMITS = {"cpu": "2", "memory": "1Gi", "gpu": "0"}


@dataclass(frozen=True, slots=True)
class NodeBed:
    """Both sides, and the agent between them."""

    local: Bed
    provider: Bed
    bed: AgentBed
    agent: AgentProcess

    def read_cpu(self) -> Cpu:
        """CPU seconds of the agent so far."""
        return read_cpu(self.agent.process.pid)

    @contextmanager
    def profiled(self, phase: str) -> Iterator[None]:
        """If a profile was asked for, sample the agent for the time of the block."""
        if PROFILE_VARIABLE not in os.environ:
            yield
            return
        self.agent.process.send_signal(signal.SIGUSR1)
        yield
        self.agent.process.send_signal(signal.SIGUSR2)
        time.sleep(PROFILE_SECONDS)
        path = Path(os.environ[PROFILE_VARIABLE])
        path.rename(path.with_name(f"{path.name}.{phase}"))

    def read_memory(self) -> Memory:
        """Resident memory of the agent now."""
        return read_memory(self.agent.process.pid)


@contextmanager
def open_real_bed() -> Iterator[NodeBed]:
    """A local cluster without a node, and a provider whose node runs containers."""
    version = kubernetes_version()
    local_options = Options(kubernetes=version, node=False, dns=False, storage=False, flags=POLICY_FLAGS)
    provider_options = Options(kubernetes=version, dns=False, storage=False, flags=(LOG_FLAG,))
    with (
        open_cluster("bench-local", local_options) as local,
        open_cluster("bench-provider", provider_options) as provider,
        _run_agent(local, provider, pods=100, remote_class=None) as bed,
    ):
        yield bed


@contextmanager
def open_fake_bed(*, pods: int) -> Iterator[NodeBed]:
    """A local cluster without a node, and a provider whose nodes KWOK pretends."""
    version, nodes = kubernetes_version(), -(-pods // PODS_PER_NODE) + 1
    local_options = Options(kubernetes=version, node=False, dns=False, storage=False, flags=POLICY_FLAGS)
    provider_options = Options(kubernetes=version, node=False, fake_nodes=nodes)
    with (
        open_cluster("bench-local", local_options) as local,
        open_cluster("bench-provider", provider_options) as provider,
    ):
        provider.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(make_fake_class()))
        with _run_agent(local, provider, pods=pods, remote_class=FAKE) as bed:
            yield bed


@contextmanager
def _run_agent(local: Bed, provider: Bed, *, pods: int, remote_class: str | None) -> Iterator[NodeBed]:
    shape: dict[str, Any] = {"name": SHAPE, "handler": "nvidia", "limits": CLASS_LIMITS}
    if remote_class is not None:
        shape["remote_class"] = remote_class
    capacity = {"cpu": str(pods), "memory": f"{pods}Gi", "nvidia.com/gpu": "0", "pods": str(2 * pods)}
    with (
        tempfile.TemporaryDirectory(prefix="runyard-bench-") as folder,
        open_bed(
            local.cluster,
            provider.cluster,
            TENANT,
            Path(folder),
            offer={"capacity": capacity, "shapes": [shape]},
        ) as bed,
    ):
        if (profile := os.environ.get(PROFILE_VARIABLE)) is not None:
            bed.program = (sys.executable, "-m", "bench.cluster.profiled_server", profile)
        agent = bed.start()
        bed.wait_ready()
        bed.wait_filling(SHAPE)
        yield NodeBed(local, provider, bed, agent)


def make_pod(
    name: str, *, script: str, runtime_class: str | None, limits: Mapping[str, str] = LIMITS
) -> dict[str, Any]:
    """A pod that states all its resources, so that both sides create the same."""
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
        "resources": {"limits": dict(limits)},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": [container],
            **({"runtimeClassName": runtime_class} if runtime_class else {}),
        },
    }
