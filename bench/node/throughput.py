"""How fast bytes of a container come to kubectl: through the virtual node, and directly from its provider.

Both ways lead to the same container. kubectl drops what it gets.
"""

import asyncio
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from bench.cluster.beds import Bed
from bench.node.beds import NAMESPACE, SHAPE, TENANT, NodeBed, make_pod
from bench.node.pod_watch import watch_pods
from bench.report import progress
from testbed.supervision import environment_without_proxies

POD = "source"
LINE = "0123456789" * 9 + "012345678"
"""With its end of line 100 bytes."""
WEBSOCKET = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "true"}
SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false"}
LIMITS = {"cpu": "2", "memory": "256Mi"}
"""The container must not be what is slow."""
LIMIT_SECONDS = 300.0


@dataclass
class Stream:
    """One kind of stream, several turns of each side."""

    name: str
    size: int
    direct: list[float] = field(default_factory=list)
    """Seconds of each turn."""
    virtual: list[float] = field(default_factory=list)
    agent_cpu: float = 0.0
    """CPU seconds of the agent per turn."""

    @property
    def ratio(self) -> float:
        """The speed through the node beside the direct one, by the medians.

        Turns of one side differ by a factor of two: how often the kubelet and containerd are woken decides how many
        bytes each passes on at a time. So the best turn of a few says little.
        """
        return median(self.direct) / median(self.virtual)

    def find_speeds(self, seconds: Sequence[float]) -> tuple[float, float]:
        """Megabytes a second: of the median turn, and of the best."""
        return self.size / median(seconds) / 1e6, self.size / min(seconds) / 1e6


async def measure_streams(bed: NodeBed, *, exec_bytes: int, log_bytes: int, turns: int) -> list[Stream]:
    """Output of a command over both protocols, and a log, in turns."""
    remote = await _start_source(bed, log_bytes)
    command = ("exec", "{}", "--", "head", "-c", str(exec_bytes), "/dev/zero")
    kinds: list[tuple[Stream, tuple[str, ...], Mapping[str, str]]] = [
        (Stream("exec, WebSocket", exec_bytes), command, WEBSOCKET),
        (Stream("exec, SPDY", exec_bytes), command, SPDY),
        (Stream("log", log_bytes), ("logs", "{}"), {}),
    ]
    for stream, arguments, environ in kinds:
        progress(f"throughput: {stream.name}")
        with bed.profiled(stream.name.partition(" ")[2] or stream.name):
            for turn in range(turns + 1):
                cpu = bed.read_cpu()
                ours = _time_kubectl(bed.local, NAMESPACE, POD, arguments, environ, stream.size)
                used = (bed.read_cpu() - cpu).own
                theirs = _time_kubectl(bed.provider, TENANT, remote, arguments, environ, stream.size)
                if turn:  # the first one warms up
                    stream.virtual.append(ours)
                    stream.direct.append(theirs)
                    stream.agent_cpu += used / turns
    return [stream for stream, _, _ in kinds]


async def _start_source(bed: NodeBed, log_bytes: int) -> str:
    """A pod that has written its log; returns its name at the provider."""
    script = f"yes {LINE} | head -c {log_bytes}; touch /tmp/written; sleep 3600"
    pod = make_pod(POD, script=script, runtime_class=SHAPE, limits=LIMITS)
    async with bed.local.connect("bench") as api, watch_pods(api, namespace=NAMESPACE) as watch:
        created = await api.post(f"/api/v1/namespaces/{NAMESPACE}/pods", pod)
        await watch.get(POD).running.wait()
    remote = f"pod-{created['metadata']['uid']}"
    written = "until [ -e /tmp/written ]; do sleep 0.2; done"
    await asyncio.to_thread(bed.provider.cluster.kubectl, "exec", "-n", TENANT, remote, "--", "sh", "-c", written)
    return remote


def _time_kubectl(
    side: Bed, namespace: str, pod: str, arguments: Sequence[str], environ: Mapping[str, str], size: int
) -> float:
    """Seconds of one kubectl, from its start to its end; what it wrote is counted."""
    cluster = side.cluster
    program = [str(cluster.directory / "bin/kubectl"), f"--kubeconfig={cluster.kubeconfig}", f"--namespace={namespace}"]
    argv = [*program, *(pod if word == "{}" else word for word in arguments)]
    began = time.perf_counter()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env={**environment_without_proxies(), **environ}) as process:
        counter = subprocess.run(
            ["wc", "-c"], stdin=process.stdout, capture_output=True, check=True, timeout=LIMIT_SECONDS
        )
        code = process.wait(LIMIT_SECONDS)
    seconds = time.perf_counter() - began
    if code != 0 or int(counter.stdout) != size:
        raise RuntimeError(f"kubectl {' '.join(arguments)}: exit code {code}, {int(counter.stdout)} of {size} bytes")
    return seconds
