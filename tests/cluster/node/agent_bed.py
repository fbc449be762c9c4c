"""`runyard node` as a process between a local cluster and a provider, with exactly the printed rights on both sides."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import yaml

from testbed.cluster import Cluster
from testbed.errors import TestbedError
from testbed.faults import FaultProxy
from testbed.pytest_plugin import kubernetes_version

NODE = "k8s.gpu"
# 1.34 and 1.35 serve MutatingAdmissionPolicies only where they are switched on.
IS_BETA = kubernetes_version() in ("1.34", "1.35")
POLICY_FLAGS = (
    (
        ("kube-apiserver", "--feature-gates=MutatingAdmissionPolicy=true"),
        ("kube-apiserver", "--runtime-config=admissionregistration.k8s.io/v1beta1=true"),
    )
    if IS_BETA
    else ()
)
FILLING: Literal["v1", "v1beta1"] = "v1beta1" if IS_BETA else "v1"
ACCOUNT = ("kube-system", "runyard-node")
WAIT_SECONDS = 60.0
POLL_SECONDS = 0.1
PROGRAM = (str(Path(sys.executable).parent / "runyard"),)


def wait_for(what: str, look: Callable[[], Any], *, seconds: float = WAIT_SECONDS) -> Any:
    """Look until something true is seen; the last look is in the failure."""
    ends_at = time.monotonic() + seconds
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > ends_at:
            raise AssertionError(f"{what} was not seen within {seconds:g} s")
        time.sleep(POLL_SECONDS)


@dataclass
class AgentProcess:
    """One agent; what it logged is kept."""

    process: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> None:
        """End it without a word."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """End it as a pod is ended."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)


@dataclass
class AgentBed:
    """A local cluster where the agent is installed, but for its Deployment, and a namespace at the provider."""

    local: Cluster
    provider: Cluster
    provider_namespace: str
    folder: Path
    offer: str
    filling: str = FILLING
    program: tuple[str, ...] = PROGRAM
    processes: list[AgentProcess] = field(default_factory=list)

    @property
    def offer_file(self) -> Path:
        return self.folder / "offer.yaml"

    def install(self) -> None:
        """Apply what `runyard node manifests` prints, and write kubeconfigs of the agent's accounts."""
        self.offer_file.write_text(self.offer)
        self.apply_manifests()
        for cluster, account, name in (
            (self.local, ACCOUNT, "local"),
            (self.provider, (self.provider_namespace, "tenant"), "provider"),
        ):
            if name == "provider":
                self.provider.kubectl("apply", "-f", "-", stdin=self._print_tenant())
            token = cluster.kubectl("create", "token", account[1], "-n", account[0], "--duration=2h").strip()
            cluster.write_kubeconfig(self.folder / f"{name}.kubeconfig", token=token)

    def apply_manifests(self, *flags: str) -> None:
        """Apply what `runyard node manifests` prints but the Deployment."""
        self.local.kubectl("apply", "-f", "-", stdin=self._print_manifests(*flags))

    def uninstall(self) -> None:
        """Delete on both sides what `install` applied."""
        self.local.kubectl("delete", "-f", "-", stdin=self._print_manifests())
        self.provider.kubectl("delete", "-f", "-", stdin=self._print_tenant())

    def _print_manifests(self, *flags: str) -> str:
        chosen = ["--image=runyard:test", f"--offer={self.offer_file}", "--provider-secret=p", *flags]
        printed = run_command("node", "manifests", *chosen, f"--filling={self.filling}")
        documents = [one for one in yaml.safe_load_all(printed) if one["kind"] != "Deployment"]
        return yaml.safe_dump_all(documents)

    def _print_tenant(self) -> str:
        return run_command("node", "manifests", "--provider-side", f"{self.provider_namespace}/tenant")

    def start(self, *flags: str, environ: Mapping[str, str] | None = None) -> AgentProcess:
        """Start an agent."""
        log = self.folder / f"agent-{len(self.processes)}.log"
        argv = [
            *self.program,
            "node",
            f"--kubeconfig={self.folder / 'local.kubeconfig'}",
            f"--provider-kubeconfig={self.folder / 'provider.kubeconfig'}",
            f"--provider-namespace={self.provider_namespace}",
            f"--offer={self.offer_file}",
            f"--address={self.local.site.addresses.host_ip}",
            "--port=0",
            *flags,
        ]
        with log.open("wb") as file:
            process = subprocess.Popen(argv, stdout=file, stderr=file, env={**os.environ, **(environ or {})})
        agent = AgentProcess(process, log)
        self.processes.append(agent)
        return agent

    def wait_ready(self) -> dict[str, Any]:
        """Wait until the node is Ready."""

        def look() -> Any:
            agent = self.processes[-1]
            code = agent.process.poll()
            assert code is None, f"the agent ended with {code}: {agent.log.read_text()[-2000:]}"
            nodes = self.get("nodes")["items"]
            return next((node for node in nodes if node["metadata"]["name"] == NODE and is_ready(node)), None)

        node: dict[str, Any] = wait_for("the node, Ready", look)
        return node

    def wait_filling(self, *shapes: str) -> None:
        """Wait until the apiserver fills pods of these classes: it learns of a policy and of a class a moment later."""
        for shape in shapes:
            wait_for(f"filled pods of class {shape}", partial(is_filling, self.local, shape))

    def get(self, *what: str) -> dict[str, Any]:
        """`kubectl get … -o json` at the local cluster."""
        found: dict[str, Any] = json.loads(self.local.kubectl("get", *what, "-o", "json"))
        return found

    def get_remote(self, *what: str) -> dict[str, Any]:
        """The same in the tenant's namespace at the provider."""
        found: dict[str, Any] = json.loads(
            self.provider.kubectl("get", *what, "-n", self.provider_namespace, "-o", "json")
        )
        return found

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Create or change objects at the local cluster, in the namespace `default` unless they say another."""
        self.local.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(map(dict, objects)))

    def get_pod(self, name: str) -> dict[str, Any]:
        return self.get("pod", name)

    def wait_phase(self, name: str, *phases: str, seconds: float = WAIT_SECONDS) -> dict[str, Any]:
        """Wait until a pod is in one of the phases."""

        def look() -> Any:
            pod = self.get_pod(name)
            return pod if pod["status"].get("phase") in phases else None

        try:
            pod: dict[str, Any] = wait_for(f"pod {name} {'/'.join(phases)}", look, seconds=seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; it is: {self.local.kubectl('describe', 'pod', name)}") from None
        return pod

    def wait_gone(self, name: str) -> None:
        """Wait until a pod is gone on both sides."""

        def look() -> bool:
            local = [pod["metadata"]["name"] for pod in self.get("pods")["items"]]
            return name not in local

        wait_for(f"pod {name} gone", look)

    def read_allocatable(self) -> dict[str, str]:
        """The node's allocatable now."""
        found: dict[str, str] = self.get("node", NODE)["status"]["allocatable"]
        return found

    def close(self) -> None:
        for agent in self.processes:
            if agent.process.poll() is None:
                agent.kill()


@contextmanager
def open_bed(
    local: Cluster,
    provider: Cluster,
    namespace: str,
    folder: Path,
    *,
    offer: Mapping[str, Any],
    filling: str = FILLING,
) -> Iterator[AgentBed]:
    """Install the agent's side of a bed; agents that are left are killed at the end."""
    bed = AgentBed(local, provider, namespace, folder, yaml.safe_dump(dict(offer)), filling)
    bed.install()
    try:
        yield bed
    finally:
        bed.close()


@contextmanager
def proxied(bed: AgentBed) -> Iterator[FaultProxy]:
    """The agent reaches the provider through a proxy, which can cut the link."""
    cluster, path = bed.provider, bed.folder / "provider.kubeconfig"
    direct = path.read_text()
    certificate = cluster.certificate("fault-proxy", hosts=["127.0.0.1"])
    with FaultProxy(cluster.server, certificate=certificate, upstream_ca=cluster.ca_file) as proxy:
        path.write_text(direct.replace(cluster.server, proxy.url))
        try:
            yield proxy
        finally:
            path.write_text(direct)


def run_command(*arguments: str) -> str:
    """A `runyard` command that must succeed; returns what it printed."""
    done = subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"runyard {' '.join(arguments)}: {done.stderr}"
    return done.stdout


def free_port() -> int:
    """A port of this machine that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def is_filling(cluster: Cluster, shape: str) -> bool:
    """Whether a new pod of the class would be filled."""
    container = {"name": "main", "image": "busybox:1.36"}
    spec = {"runtimeClassName": shape, "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "would-be", "namespace": "default"}, "spec": spec}
    made = admit_pod(cluster, pod)
    return made is not None and bool(made["spec"].get("schedulerName") == NODE)


def admit_pod(cluster: Cluster, pod: Mapping[str, Any]) -> dict[str, Any] | None:
    """The pod as it would be created; None if the apiserver does not know its class yet."""
    try:
        made = cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(pod))
    except TestbedError as error:
        if "RuntimeClass" in str(error) or "runtimeclass" in str(error):
            return None
        raise
    admitted: dict[str, Any] = json.loads(made)
    return admitted


def is_ready(object_: Mapping[str, Any]) -> bool:
    conditions = object_.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def find_condition(object_: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """A condition of an object's status; empty if there is none."""
    conditions = object_.get("status", {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == kind), {})
