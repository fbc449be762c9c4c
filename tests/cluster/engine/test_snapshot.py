"""Snapshots against what `kubectl describe node` says."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runyard.engines.kubernetes import cluster_snapshot
from runyard.engines.kubernetes.cluster_snapshot import ClusterSnapshots
from runyard.engines.kubernetes.kubernetes_settings import KubernetesSettings
from runyard.kube import AlreadyExists, Client, load_kubeconfig
from runyard.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    NAMESPACES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
)
from runyard.pods.demand import pod_requests
from runyard.pods.snapshot import Snapshot
from runyard.spec.kubernetes.quantity import Quantity
from testbed.cluster import Cluster
from tests.cluster.kube.conditions import wait_until
from tests.cluster.kube.identities import create_account

SETTINGS = KubernetesSettings(installation="i1", namespace="team")


@asynccontextmanager
async def take_snapshots(client: Client) -> AsyncIterator[ClusterSnapshots]:
    snapshots = ClusterSnapshots(client, SETTINGS)
    try:
        yield snapshots
    finally:
        await snapshots.close()


def sum_requests(snapshot: Snapshot, node: str) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    for pod in snapshot.pods:
        if pod["spec"].get("nodeName") == node:
            for name, amount in pod_requests(pod, apply_defaults=False).items():
                total[name] = total[name] + amount if name in total else amount
    return total


def read_allocated(described: str) -> dict[str, Quantity]:
    """The requests in the table `Allocated resources`."""
    table = described.partition("Allocated resources:")[2].partition("Events:")[0]
    rows = re.findall(r"^  (\S+)\s+(\S+)(?: \(\d+%\))?\s", table, flags=re.MULTILINE)
    return {name: Quantity.parse(amount) for name, amount in rows if name[0] not in "R-("}


async def test_requests_are_those_of_kubectl_when_pods_have_init_containers_and_sidecars(
    cluster: Cluster, namespace: str
) -> None:
    def container(name: str, cpu: str, memory: str, **fields: Any) -> dict[str, Any]:
        return {
            "name": name,
            "image": "localhost/runyard/pause:latest",
            "imagePullPolicy": "IfNotPresent",
            "resources": {"requests": {"cpu": cpu, "memory": memory}},
            **fields,
        }

    bodies: dict[str, dict[str, Any]] = {
        "plain": {"containers": [container("a", "30m", "10Mi"), container("b", "20m", "3M")]},
        "sidecar": {
            "initContainers": [container("s", "15m", "7Mi", restartPolicy="Always"), container("i", "90m", "1Mi")],
            "containers": [container("a", "10m", "2Mi")],
        },
        "gpu": {"containers": [{**container("a", "1m", "1Mi"), "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
    }
    async with Client.connect(load_kubeconfig(cluster.kubeconfig)) as client, take_snapshots(client) as snapshots:
        for name, spec in bodies.items():
            await client.create(PODS, {"metadata": {"name": name}, "spec": spec}, namespace=namespace)

        async def agrees() -> bool:
            described = cluster.kubectl("describe", "node", cluster.node_name)
            allocated = {name: amount for name, amount in read_allocated(described).items() if not amount.is_zero}
            taken = sum_requests(await snapshots.take(), cluster.node_name)
            shown = {name: amount for name, amount in taken.items() if not amount.is_zero}
            pods = {pod["metadata"]["name"] for pod in (await snapshots.take()).pods if pod["spec"].get("nodeName")}
            return bodies.keys() <= pods and allocated == shown

        await wait_until(agrees)
        [node] = (await snapshots.take()).nodes
        live = (await client.list(PODS, namespace=namespace)).items
        assert len(live) == len(bodies)
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
        assert {"type": "Ready", "status": "True", "reason": "KubeletReady"} in node["status"]["conditions"]
        assert node["metadata"]["labels"]["kubernetes.io/hostname"] == cluster.node_name


async def test_missing_rights_are_named_when_the_server_may_not_see_all(
    cluster: Cluster, namespace: str, tmp_path: Any
) -> None:
    async with Client.connect(load_kubeconfig(cluster.kubeconfig)) as admin:
        token = await create_account(admin, "poor", namespace=namespace)
    config = load_kubeconfig(cluster.write_kubeconfig(tmp_path / "poor", token=token))
    settings = KubernetesSettings(installation="i1")
    async with Client.connect(config) as client:
        snapshots = ClusterSnapshots(client, settings)
        taken = await snapshots.take()
        await snapshots.close()
    assert (taken.nodes, taken.pods) == ((), ())
    assert [one.missing for one in taken.unseen] == ["list and watch nodes", "list and watch pods in all namespaces"]


def name_pods(snapshot: Snapshot) -> set[str]:
    return {pod["metadata"]["name"] for pod in snapshot.pods}


async def grant(admin: Client, name: str, resource: str, *, account: str, namespace: str, is_wide: bool) -> None:
    """The right to list and watch a resource, in the account's namespace or everywhere."""
    rules = [{"apiGroups": [""], "resources": [resource], "verbs": ["list", "watch"]}]
    kind = "ClusterRole" if is_wide else "Role"
    group = "rbac.authorization.k8s.io"
    where = None if is_wide else namespace
    roles, bindings = (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS) if is_wide else (ROLES, ROLE_BINDINGS)
    await admin.create(roles, {"metadata": {"name": name}, "rules": rules}, namespace=where)
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": account}],
    }
    await admin.create(bindings, binding, namespace=where)


async def test_pods_of_other_namespaces_are_seen_when_the_right_is_granted_later(
    control_plane: Cluster, plane_client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_snapshot, "RIGHTS_SECONDS", 0.0)
    body = {"spec": {"containers": [{"name": "a", "image": "pause"}]}}
    for namespace in ("snap-own", "snap-foreign"):
        await plane_client.create(NAMESPACES, {"metadata": {"name": namespace}})
        account = {"metadata": {"name": "default"}}
        with suppress(AlreadyExists):
            await plane_client.create(SERVICE_ACCOUNTS, account, namespace=namespace)
        await plane_client.create(PODS, {"metadata": {"name": namespace}, **body}, namespace=namespace)
    token = await create_account(plane_client, "server", namespace="snap-own")
    rights: dict[str, str] = {"account": "server", "namespace": "snap-own"}
    await grant(plane_client, "snap-narrow", "pods", **rights, is_wide=False)
    config = load_kubeconfig(control_plane.write_kubeconfig(tmp_path / "server", token=token))
    async with Client.connect(config) as client:
        snapshots = ClusterSnapshots(client, KubernetesSettings(installation="i1", namespace="snap-own"))
        try:

            async def sees_own() -> bool:
                return name_pods(await snapshots.take()) == {"snap-own"}

            await wait_until(sees_own)  # the apiserver learns of a new right a moment later
            narrow = await snapshots.take()
            assert [one.what for one in narrow.unseen] == ["nodes", "pods of other namespaces"]
            for resource in ("pods", "nodes"):
                await grant(plane_client, f"snap-{resource}", resource, **rights, is_wide=True)

            async def sees_all() -> bool:
                taken = await snapshots.take()
                is_whole = {"snap-own", "snap-foreign"} <= name_pods(taken)
                # As long as foreign pods are not shown, the snapshot says that they are missing.
                assert is_whole or "pods of other namespaces" in [one.what for one in taken.unseen]
                return is_whole and taken.unseen == ()

            await wait_until(sees_all)
        finally:
            await snapshots.close()


@pytest.mark.parametrize("fault", ["kill", "freeze"])
async def test_snapshot_says_since_when_it_is_stale_when_the_apiserver_is_gone(
    control_plane: Cluster, plane_client: Client, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    async with take_snapshots(plane_client) as snapshots:
        before = await snapshots.take()
        assert before.unseen == ()
        await asyncio.to_thread(getattr(control_plane, fault), "kube-apiserver")
        await asyncio.sleep(0.5)  # what it sent before is still read
        broken_at = datetime.now(UTC)
        try:
            if fault == "freeze":  # it is silent, and its connections stay open
                await asyncio.sleep(1.5)
                monkeypatch.setattr(cluster_snapshot, "SILENT_SECONDS", 1.0)

            async def is_told() -> bool:
                return len((await snapshots.take()).unseen) == 2

            await wait_until(is_told)
            stale = await snapshots.take()
        finally:
            act = control_plane.start if fault == "kill" else control_plane.thaw
            await asyncio.to_thread(act, "kube-apiserver")
            await asyncio.to_thread(control_plane.wait_ready)
        assert [one.what for one in stale.unseen] == ["changes of nodes", "changes of pods"]
        times = [datetime.fromisoformat(one.since or "") for one in stale.unseen]
        assert all(at <= broken_at for at in times)
        assert datetime.fromisoformat(stale.at) == min(times)
        assert all("the apiserver" in one.missing for one in stale.unseen)
        monkeypatch.undo()

        async def is_whole() -> bool:
            return (await snapshots.take()).unseen == ()

        await wait_until(is_whole)
        assert datetime.fromisoformat((await snapshots.take()).at) > broken_at
