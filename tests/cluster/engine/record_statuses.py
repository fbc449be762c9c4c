"""Records what a real Kubernetes says of runs that go well or badly, for tests/unit/engines/kubernetes/observations.

    python -m tests.cluster.engine.record_statuses CLUSTER [SCENARIO …]

CLUSTER is the name of a testbed (`python -m testbed up --name record --gpus 4`). Writes one file per scenario to
tests/data/kubernetes/statuses. Record again with a new version of Kubernetes, and look at the differences.
"""

import asyncio
import json
import re
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runyard.kube.client import Client
from runyard.kube.config import load_kubeconfig
from runyard.kube.errors import ApiError
from runyard.kube.resources import (
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    LIMIT_RANGES,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    RUNTIME_CLASSES,
    SERVICES,
    Resource,
)
from testbed.cluster import Cluster
from tests.cluster.engine.scenarios import (
    PYTHON,
    REGISTRY,
    SCENARIOS,
    Object,
    Recorded,
    Scenario,
    is_pod_ready,
    make_container,
)

FOLDER = Path(__file__).parents[2] / "data" / "kubernetes" / "statuses"
MOST_AT_ONCE = 6
LONGEST_SECONDS = 90
_RESOURCES: dict[str, Resource] = {
    each.kind: each
    for each in (DEPLOYMENTS, JOBS, LIMIT_RANGES, PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_QUOTAS, SERVICES)
}
_DROPPED = {"managedFields", "selfLink", "ownerReferences", "generateName", "finalizers", "imageID"}


async def record_all(cluster: Cluster, names: Sequence[str]) -> None:
    """Record each scenario in a namespace of its own, several at once."""
    async with Client.connect(load_kubeconfig(cluster.kubeconfig)) as client:
        await prepare(client)
        slots = asyncio.Semaphore(MOST_AT_ONCE)
        await asyncio.gather(*(_record(client, cluster, name, slots) for name in names))


async def prepare(client: Client) -> None:
    """What scenarios share: a registry that refuses, a priority above others, a runtime class without a handler."""
    connect = "import socket; socket.create_connection(('127.0.0.1', 5999), 1)"
    probe = {"exec": {"command": ["python3", "-c", connect]}, "periodSeconds": 1, "timeoutSeconds": 10}
    server = make_container(image=PYTHON, command=["python3", "-c", REGISTRY], readinessProbe=probe)
    shared: list[tuple[Resource, Object]] = [
        (PODS, {"metadata": {"name": "registry"}, "spec": {"hostNetwork": True, "containers": [server]}}),
        (PRIORITY_CLASSES, {"metadata": {"name": "recorded-high"}, "value": 1000}),
        (RUNTIME_CLASSES, {"metadata": {"name": "ghost"}, "handler": "ghost"}),
    ]
    for resource, given in shared:
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **given}
        namespace = "default" if resource.namespaced else None
        try:
            await client.create(resource, whole, namespace=namespace)
        except ApiError as error:
            if error.status != 409:
                raise
    async with asyncio.timeout(LONGEST_SECONDS):
        while not is_pod_ready(await client.get(PODS, "registry", namespace="default")):  # noqa: ASYNC110
            await asyncio.sleep(0.2)


async def _record(client: Client, cluster: Cluster, name: str, slots: asyncio.Semaphore) -> None:
    async with slots:
        try:
            text = await play(client, cluster, name)
        except (TimeoutError, ApiError) as error:
            sys.stdout.write(f"{name}: NOT RECORDED: {error}\n")
            return
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / f"{name}.json").write_text(text + "\n")
        sys.stdout.write(f"{name}: recorded\n")


async def play(client: Client, cluster: Cluster, name: str) -> str:
    """Let a scenario happen in a namespace of its own; what is recorded of it."""
    scenario, namespace = SCENARIOS[name], f"record-{secrets.token_hex(3)}-{name}"
    meta = {"name": namespace, "labels": dict(scenario.labels)}
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    try:
        return _render(cluster, namespace, await _play(client, scenario, namespace))
    finally:
        await client.delete(NAMESPACES, namespace)


async def _play(client: Client, scenario: Scenario, namespace: str) -> Recorded:
    for each in (*scenario.others, scenario.anchor):
        await client.create(_RESOURCES[each["kind"]], each, namespace=namespace)
    deadline = time.monotonic() + LONGEST_SECONDS
    is_done = scenario.act is None
    while time.monotonic() < deadline:
        found = await _read(client, scenario, namespace)
        if is_done and scenario.until(found):
            return found
        running = [pod for pod in found.pods if pod["status"]["phase"] == "Running"]
        if not is_done and running:
            await asyncio.sleep(2)
            await _act(client, str(scenario.act), namespace, running[0])
            is_done = True
        await asyncio.sleep(0.05)
    raise TimeoutError(f"did not happen in {LONGEST_SECONDS} s")


async def _act(client: Client, act: str, namespace: str, pod: Object) -> None:
    name = pod["metadata"]["name"]
    if act == "evict":
        await client.evict(name, namespace=namespace)
    elif act == "delete":
        await client.delete(PODS, name, namespace=namespace)
    elif act == "end":
        body = [{"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 1}]
        await client.patch(PODS, name, body, namespace=namespace, kind="json")
    elif act == "preempt":
        container = make_container(resources={"limits": {"nvidia.com/gpu": "3"}})
        spec = {"priorityClassName": "recorded-high", "containers": [container], "terminationGracePeriodSeconds": 1}
        whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "important"}, "spec": spec}
        await client.create(PODS, whole, namespace=namespace)


async def _read(client: Client, scenario: Scenario, namespace: str) -> Recorded:
    kind = _RESOURCES[scenario.anchor["kind"]]
    ours = "runyard.io/run-uid"
    return Recorded(
        anchor=await client.get(kind, scenario.anchor["metadata"]["name"], namespace=namespace),
        pods=list((await client.list(PODS, namespace=namespace, label_selector=ours)).items),
        events=list((await client.list(EVENTS, namespace=namespace, field_selector="type=Warning")).items),
        claims=list((await client.list(PERSISTENT_VOLUME_CLAIMS, namespace=namespace, label_selector=ours)).items),
        services=list((await client.list(SERVICES, namespace=namespace, label_selector=ours)).items),
    )


def _render(cluster: Cluster, namespace: str, found: Recorded) -> str:
    """Without what is of this machine: its node, and addresses."""
    content = {
        "anchor": _clean(found.anchor),
        "pods": [_clean(pod) for pod in found.pods],
        "events": [_clean(event) for event in found.events],
        "claims": [_clean(claim) for claim in found.claims],
        "services": [_clean(service) for service in found.services],
    }
    text = json.dumps({key: value for key, value in content.items() if value}, indent=1, sort_keys=True)
    text = text.replace(namespace, "team-a").replace(cluster.node_name, "node-1")
    text = text.replace(str(cluster.directory), "/var/lib/testbed")
    return re.sub(r"\b10\.21([789])\.\d+\.(\d+)", r"10.21\1.0.\2", text)


def _clean(found: Any) -> Any:
    if isinstance(found, list):
        return [_clean(each) for each in found]
    if not isinstance(found, dict):
        return found
    return {key: _clean(value) for key, value in found.items() if key not in _DROPPED}


if __name__ == "__main__":
    chosen = sys.argv[2:] or list(SCENARIOS)
    asyncio.run(record_all(Cluster.find(sys.argv[1]), chosen))
