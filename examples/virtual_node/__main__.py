"""`python -m examples.virtual_node`: a cluster without machines, a provider with one, and `runyard node` between."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from testbed.cluster import Cluster
from testbed.site import Options

HERE = Path(__file__).parent
RUNYARD = str(Path(sys.executable).parent / "runyard")
NODE = "k8s.gpu"
ACCOUNT = "kube-system/runyard-node"
TENANT = "tenant/runyard"
WAIT_SECONDS = 120.0


def main() -> int:
    """Tell the story; everything that was started is ended."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="runyard-node-")))
        title("Two clusters: one without a single machine, and a provider that has one, with two GPUs")
        local = stack.enter_context(start("demo-local", Options(node=False, dns=False, storage=False)))
        provider = stack.enter_context(start("demo-provider", Options(dns=False, storage=False, gpus=2)))
        title("Install: an account with its rights on either side, and three admission policies")
        install(local, provider, folder)
        stack.enter_context(run_agent(local, folder))
        wait(lambda: is_ready(local))
        show(local, "get", "nodes")
        show(local, "get", "runtimeclasses", "-l", NODE)
        title("A pod that states nothing but its class")
        show(local, "apply", "-f", str(HERE / "pod.yaml"))
        wait(lambda: read(local, "get", "pod", "remote", "-o", "jsonpath={.status.phase}") == "Running")
        show(local, "get", "pod", "remote", "-o", "wide")
        show(local, "get", "pod", "remote", "-o", "jsonpath={.spec.containers[0].resources.limits}{'\\n'}")
        show(local, "get", "node", NODE, "-o", "jsonpath={.status.capacity}{'\\n'}{.status.allocatable}{'\\n'}")
        title("It runs on the provider's machine; logs and commands go through the virtual node")
        show(provider, "get", "pods", "-n", "tenant", "-o", "wide")
        wait(lambda: bool(read(local, "logs", "remote")))
        show(local, "logs", "remote")
        show(local, "exec", "remote", "--", "sh", "-c", "echo in the container of $(hostname)")
        title("Deleted here, gone there")
        show(local, "delete", "pod", "remote")
        show(provider, "get", "pods", "-n", "tenant")
    print("\nEverything that was started is ended.")
    return 0


def install(local: Cluster, provider: Cluster, folder: Path) -> None:
    """Apply what `runyard node manifests` prints, but for the Deployment: the agent is a process of this machine."""
    command = [RUNYARD, "node", "manifests", "--image=runyard", f"--offer={HERE / 'offer.yaml'}", "--provider-secret=p"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    documents = [text for text in printed.split("---\n") if "\nkind: Deployment\n" not in text]
    local.kubectl("apply", "-f", "-", stdin="---\n".join(documents))
    theirs = [RUNYARD, "node", "manifests", f"--provider-side={TENANT}"]
    provider.kubectl(
        "apply", "-f", "-", stdin=subprocess.run(theirs, capture_output=True, text=True, check=True).stdout
    )
    for cluster, account, name in ((local, ACCOUNT, "local"), (provider, TENANT, "provider")):
        namespace, _, user = account.partition("/")
        token = cluster.kubectl("create", "token", user, "-n", namespace, "--duration=1h").strip()
        cluster.write_kubeconfig(folder / f"{name}.kubeconfig", token=token)


@contextmanager
def start(name: str, options: Options) -> Iterator[Cluster]:
    """A cluster of the testbed, for the time of the block."""
    cluster = Cluster.up(name, options, outlives_us=False, say=print)
    try:
        yield cluster
    finally:
        cluster.down()


@contextmanager
def run_agent(local: Cluster, folder: Path) -> Iterator[None]:
    """`runyard node`, for the time of the block."""
    argv = [
        RUNYARD,
        "node",
        f"--kubeconfig={folder / 'local.kubeconfig'}",
        f"--provider-kubeconfig={folder / 'provider.kubeconfig'}",
        "--provider-namespace=tenant",
        f"--offer={HERE / 'offer.yaml'}",
        f"--address={local.site.addresses.host_ip}",
        "--port=0",
    ]
    print("$ " + " ".join(["runyard", *argv[1:]]).replace(f"{folder}{os.sep}", "").replace(f"{HERE}{os.sep}", ""))
    with (folder / "agent.log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=30)


def is_ready(cluster: Cluster) -> bool:
    """Whether the virtual node is Ready."""
    nodes = json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"]
    conditions = [one for node in nodes for one in node["status"].get("conditions", ())]
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def wait(look: Callable[[], bool]) -> None:
    """Look until it is so."""
    ends_at = time.monotonic() + WAIT_SECONDS
    while not look():
        if time.monotonic() > ends_at:
            raise SystemExit(f"the demo failed: nothing happened within {WAIT_SECONDS:g} s")
        time.sleep(0.2)


def show(cluster: Cluster, *arguments: str) -> None:
    """Run kubectl and print both the command and what it says."""
    shown = " ".join(arguments).replace(f"{HERE}{os.sep}", "")
    print(f"{cluster.name.removeprefix('demo-')} $ kubectl {shown}")
    print(cluster.kubectl(*arguments).rstrip() or "(nothing)")


def read(cluster: Cluster, *arguments: str) -> str:
    """Run kubectl."""
    return cluster.kubectl(*arguments)


def title(text: str) -> None:
    """Print the title of a step."""
    print(f"\n== {text}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
