"""Every verb, sub-resource and kind of credentials against a real apiserver."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import runyard
from runyard.kube.client import Client
from runyard.kube.config import load_kubeconfig
from runyard.kube.errors import Conflict, NotFound, Unauthorized
from runyard.kube.objects import Object
from runyard.kube.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    ROLE_BINDINGS,
    SELF_SUBJECT_ACCESS_REVIEWS,
    SERVICE_ACCOUNTS,
)
from runyard.kube.transport import Transport
from testbed.cluster import Cluster
from tests.cluster.kube.conditions import forget_history, wait_until
from tests.cluster.kube.identities import config_of, create_account, who_am_i
from tests.cluster.testbed.manifests import container, job, pod


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def deployment(name: str, *, replicas: int) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container("sleep 600")]}},
        },
    }


async def test_object_lives_when_each_verb_is_used_on_it(client: Client, namespace: str) -> None:
    created = await client.create(CONFIG_MAPS, config_map("a", k="1", other="x"), namespace=namespace)
    assert created["metadata"]["namespace"] == namespace
    assert "managedFields" not in created["metadata"]
    assert await client.get(CONFIG_MAPS, "a", namespace=namespace) == created

    replaced = await client.replace(CONFIG_MAPS, {**created, "data": {"k": "2", "other": "x"}})
    assert replaced["data"] == {"k": "2", "other": "x"}
    merged = await client.patch(CONFIG_MAPS, "a", {"data": {"other": None}}, namespace=namespace)
    assert merged["data"] == {"k": "2"}
    patch = [{"op": "test", "path": "/data/k", "value": "2"}, {"op": "replace", "path": "/data/k", "value": "3"}]
    patched = await client.patch(CONFIG_MAPS, "a", patch, namespace=namespace, kind="json")
    assert patched["data"] == {"k": "3"}
    applied = await client.apply(CONFIG_MAPS, config_map("a", mine="1"), namespace=namespace, field_manager="me")
    assert applied["data"] == {"k": "3", "mine": "1"}

    listing = await client.list(CONFIG_MAPS, namespace=namespace, field_selector="metadata.name=a")
    assert listing.items == [applied]
    assert int(listing.resource_version) >= int(applied["metadata"]["resourceVersion"])

    version = applied["metadata"]["resourceVersion"]
    answer = await client.delete(
        CONFIG_MAPS, "a", namespace=namespace, uid=created["metadata"]["uid"], resource_version=version
    )
    assert answer["status"] == "Success"
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "a", namespace=namespace)


async def test_lists_are_merged_by_name_when_a_patch_is_strategic(client: Client, namespace: str) -> None:
    await client.create(DEPLOYMENTS, deployment("d", replicas=0), namespace=namespace)
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "second", "image": "busybox"}]}}}}
    patched = await client.patch(DEPLOYMENTS, "d", patch, namespace=namespace, kind="strategic")
    assert {each["name"] for each in patched["spec"]["template"]["spec"]["containers"]} == {"main", "second"}


async def test_name_is_made_when_only_its_beginning_is_given(client: Client, namespace: str) -> None:
    created = await client.create(CONFIG_MAPS, {"metadata": {"generateName": "a-", "namespace": namespace}})
    assert created["metadata"]["name"].startswith("a-")


async def test_fields_change_hands_when_apply_is_forced(client: Client, namespace: str) -> None:
    await client.apply(CONFIG_MAPS, config_map("a", k="1"), namespace=namespace, field_manager="first")
    taken = await client.apply(
        CONFIG_MAPS, config_map("a", k="2"), namespace=namespace, field_manager="second", force=True
    )
    assert taken["data"] == {"k": "2"}
    # The first manager no longer owns the field: leaving it out takes nothing away.
    await client.apply(CONFIG_MAPS, config_map("a"), namespace=namespace, field_manager="first")
    assert (await client.get(CONFIG_MAPS, "a", namespace=namespace))["data"] == {"k": "2"}


async def test_nothing_happens_when_it_is_a_dry_run(client: Client, namespace: str) -> None:
    would = await client.create(CONFIG_MAPS, config_map("a", k="1"), namespace=namespace, dry_run=True)
    assert would["metadata"]["uid"]
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "a", namespace=namespace)

    created = await client.create(CONFIG_MAPS, config_map("a", k="1"), namespace=namespace)
    change = {"data": {"k": "2"}}
    options: dict[str, Any] = {"namespace": namespace, "dry_run": True}
    assert (await client.patch(CONFIG_MAPS, "a", change, **options))["data"] == {"k": "2"}
    assert (await client.replace(CONFIG_MAPS, {**created, **change}, dry_run=True))["data"] == {"k": "2"}
    await client.apply(CONFIG_MAPS, config_map("a", k="2"), field_manager="me", force=True, **options)
    await client.delete(CONFIG_MAPS, "a", **options)
    assert await client.get(CONFIG_MAPS, "a", namespace=namespace) == created

    await client.create(PODS, pod("p", "sleep 600", spec={"schedulerName": "nobody"}), namespace=namespace)
    await client.evict("p", **options)
    await client.bind("p", node="anywhere", **options)
    unbound = await client.get(PODS, "p", namespace=namespace)
    assert "deletionTimestamp" not in unbound["metadata"]
    assert "nodeName" not in unbound["spec"]

    await client.create(DEPLOYMENTS, deployment("d", replicas=0), namespace=namespace)
    scale = await client.scale(DEPLOYMENTS, "d", replicas=3, **options)
    assert scale["spec"]["replicas"] == 3
    assert (await client.get(DEPLOYMENTS, "d", namespace=namespace))["spec"]["replicas"] == 0


async def test_children_go_first_when_a_deletion_is_in_the_foreground(client: Client, namespace: str) -> None:
    await client.create(JOBS, job("j", "sleep 600", spec={"terminationGracePeriodSeconds": 0}), namespace=namespace)

    async def has_pod() -> bool:
        return bool((await client.list(PODS, namespace=namespace)).items)

    await wait_until(has_pod)
    held = await client.delete(JOBS, "j", namespace=namespace, propagation="Foreground")
    assert held["metadata"]["finalizers"] == ["foregroundDeletion"]

    async def is_gone() -> bool:
        return not (await client.list(JOBS, namespace=namespace)).items

    await wait_until(is_gone)
    assert not await has_pod()


async def test_children_stay_when_a_deletion_orphans_them(client: Client, namespace: str) -> None:
    await client.create(JOBS, job("j", "sleep 600", spec={"terminationGracePeriodSeconds": 0}), namespace=namespace)

    async def owners() -> list[Object] | None:
        pods = (await client.list(PODS, namespace=namespace)).items
        return pods[0]["metadata"].get("ownerReferences", []) if pods else None

    async def has_owner() -> bool:
        return bool(await owners())

    async def is_gone() -> bool:
        return not (await client.list(JOBS, namespace=namespace)).items

    await wait_until(has_owner)
    await client.delete(JOBS, "j", namespace=namespace, propagation="Orphan")
    # The collector frees the pods first and lets the job go after, so the pods are looked at when the job is gone.
    await wait_until(is_gone)
    assert await owners() == []


async def test_status_changes_alone_when_it_is_patched_as_a_subresource(client: Client, namespace: str) -> None:
    await client.create(PODS, pod("p", "sleep 600", spec={"schedulerName": "nobody"}), namespace=namespace)
    patch = {"status": {"message": "waiting for a shape"}, "metadata": {"labels": {"ignored": "yes"}}}
    await client.patch(PODS, "p", patch, namespace=namespace, subresource="status")
    got = await client.get(PODS, "p", namespace=namespace, subresource="status")
    assert got["status"]["message"] == "waiting for a shape"
    status = {"status": {"conditions": [{"type": "example.com/Ready", "status": "True"}]}, "metadata": {"name": "p"}}
    applied = await client.apply(PODS, status, namespace=namespace, subresource="status", field_manager="me")
    assert "example.com/Ready" in {condition["type"] for condition in applied["status"]["conditions"]}


async def test_pod_runs_when_we_bind_it(client: Client, cluster: Cluster, namespace: str) -> None:
    body = pod("p", "sleep 600", spec={"schedulerName": "nobody"})
    created = await client.create(PODS, body, namespace=namespace)
    with pytest.raises(Conflict):
        await client.bind("p", namespace=namespace, node=cluster.node_name, uid="another")
    await client.bind("p", namespace=namespace, node=cluster.node_name, uid=created["metadata"]["uid"])
    with pytest.raises(Conflict, match="already assigned"):
        await client.bind("p", namespace=namespace, node=cluster.node_name)

    async def is_running() -> bool:
        return bool((await client.get(PODS, "p", namespace=namespace))["status"]["phase"] == "Running")

    await wait_until(is_running)
    # Now that it runs, an eviction is a deletion with its grace period.
    with pytest.raises(Conflict):
        await client.evict("p", namespace=namespace, uid="another")
    await client.evict("p", namespace=namespace, uid=created["metadata"]["uid"], grace_period_seconds=0)

    async def is_gone() -> bool:
        return not (await client.list(PODS, namespace=namespace)).items

    await wait_until(is_gone)


async def test_replicas_follow_when_a_deployment_is_scaled(client: Client, namespace: str) -> None:
    created = await client.create(DEPLOYMENTS, deployment("d", replicas=0), namespace=namespace)
    scale = await client.scale(DEPLOYMENTS, "d", namespace=namespace, replicas=1, uid=created["metadata"]["uid"])
    assert (scale["kind"], scale["spec"]["replicas"]) == ("Scale", 1)
    # Without its resourceVersion: the deployment's controller writes to it at the same time.
    metadata = {"name": "d", "namespace": namespace}
    await client.replace(DEPLOYMENTS, {**scale, "metadata": metadata, "spec": {"replicas": 2}}, subresource="scale")
    stored = await client.get(DEPLOYMENTS, "d", namespace=namespace, subresource="scale")
    assert stored["spec"]["replicas"] == 2


async def test_account_is_itself_when_it_uses_its_token(
    client: Client, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    token = await create_account(client, "robot", namespace=namespace)
    async with Client.connect(config_of(cluster, {"token": token}, folder=tmp_path)) as robot:
        assert (await who_am_i(robot))["username"] == f"system:serviceaccount:{namespace}:robot"
        review = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": namespace}}}
        answer = await robot.create(SELF_SUBJECT_ACCESS_REVIEWS, review)
    assert answer["status"]["allowed"] is False


async def test_new_token_is_used_when_its_file_is_swapped(
    client: Client, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """As the kubelet does it: a symbolic link to a folder that is replaced as a whole."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(await create_account(client, name, namespace=namespace))
    (tmp_path / "data").symlink_to("first")
    config = config_of(cluster, {"tokenFile": "data/token"}, folder=tmp_path)
    async with Client.connect(config) as robot:
        assert (await who_am_i(robot))["username"].endswith(":first")
        (tmp_path / "next").symlink_to("second")
        (tmp_path / "next").rename(tmp_path / "data")
        assert (await who_am_i(robot))["username"].endswith(":second")


async def test_user_is_the_certificates_when_there_is_one(cluster: Cluster, tmp_path: Path) -> None:
    certificate, key = cluster.certificate("alice", groups=("testers",))
    user = {"client-certificate": str(certificate), "client-key": str(key)}
    async with Client.connect(config_of(cluster, user, folder=tmp_path)) as alice:
        who = await who_am_i(alice)
    assert who["username"] == "alice"
    assert "testers" in who["groups"]


def plugin_user(folder: Path, script: str, **fields: Any) -> dict[str, Any]:
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\necho run >> {folder}/runs\n{script}")
    path.chmod(0o755)
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./plugin",
        "interactiveMode": "Never",
        **fields,
    }
    return {"exec": plugin}


def credential(**status: str) -> str:
    return json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status})


async def test_plugin_is_asked_again_when_its_token_is_refused(
    client: Client, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    (tmp_path / "1").write_text(credential(token="stale"))
    (tmp_path / "2").write_text(credential(token=await create_account(client, "robot", namespace=namespace)))
    user = plugin_user(tmp_path, f"cat {tmp_path}/$(wc -l < {tmp_path}/runs)")
    async with Client.connect(config_of(cluster, user, folder=tmp_path)) as robot:
        answers = await asyncio.gather(*(who_am_i(robot) for _ in range(10)))
    assert {answer["username"] for answer in answers} == {f"system:serviceaccount:{namespace}:robot"}
    assert (tmp_path / "runs").read_text().count("run") == 2


async def test_unauthorized_is_told_when_a_plugin_has_nothing_better(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "answer").write_text(credential(token="stale"))
    user = plugin_user(tmp_path, f"cat {tmp_path}/answer")
    async with Client.connect(config_of(cluster, user, folder=tmp_path)) as robot:
        with pytest.raises(Unauthorized):
            await robot.list(PODS)
    assert (tmp_path / "runs").read_text().count("run") == 2


async def test_user_is_the_certificates_when_a_plugin_gives_one(cluster: Cluster, tmp_path: Path) -> None:
    certificate, key = cluster.certificate("bob")
    data = {"clientCertificateData": certificate.read_text(), "clientKeyData": key.read_text()}
    (tmp_path / "answer").write_text(credential(**data))
    user = plugin_user(
        tmp_path, f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info; cat {tmp_path}/answer', provideClusterInfo=True
    )
    async with Client.connect(config_of(cluster, user, folder=tmp_path)) as bob:
        assert (await who_am_i(bob))["username"] == "bob"
    assert json.loads((tmp_path / "info").read_text())["spec"]["cluster"]["server"] == cluster.server


async def test_server_name_is_checked_when_it_is_another_than_the_address(cluster: Cluster, tmp_path: Path) -> None:
    certificate, key = cluster.certificate("alice")
    user = {"client-certificate": str(certificate), "client-key": str(key)}
    config = config_of(cluster, user, folder=tmp_path, **{"tls-server-name": "kubernetes.default.svc"})
    async with Client.connect(config) as alice:
        assert (await who_am_i(alice))["username"] == "alice"


async def test_list_is_of_one_moment_when_others_keep_creating(client: Client, namespace: str) -> None:
    """1,200 objects in pages of 100: exactly those that existed at the list's resourceVersion."""
    created_at: dict[str, int] = {}

    async def create(number: int) -> None:
        created = await client.create(CONFIG_MAPS, config_map(f"c-{number:05}"), namespace=namespace)
        created_at[created["metadata"]["name"]] = int(created["metadata"]["resourceVersion"])

    async def create_for_ever() -> None:
        number = 1200
        while True:
            await create(number)
            number += 1

    await asyncio.gather(*(create(number) for number in range(1200)))
    others = asyncio.create_task(create_for_ever())
    try:
        listing = await client.list(
            CONFIG_MAPS, namespace=namespace, field_selector="metadata.name!=kube-root-ca.crt", page_size=100
        )
        pages = [page async for page in client.iter_pages(CONFIG_MAPS, namespace=namespace, page_size=100)]
    finally:
        others.cancel()
        await asyncio.wait({others})
    version = int(listing.resource_version)
    names = [item["metadata"]["name"] for item in listing.items]
    assert len(names) == len(set(names)) >= 1200
    assert set(names) == {name for name, at in created_at.items() if at <= version}
    assert len(created_at) > 1200
    assert len(pages) >= 12
    assert {len(page.items) for page in pages[:-1]} == {100}
    assert len({page.resource_version for page in pages}) == 1


class ForgetfulTransport(Transport):
    """Makes the cluster forget its history once, after the first page of the first list."""

    def __init__(self, *arguments: Any, plane: Cluster, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._plane: Cluster | None = plane
        self.lists = 0

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        answer = await super().request(method, path, **options)
        if (options.get("params") or {}).get("limit"):
            self.lists += 1
            plane, self._plane = self._plane, None
            if plane is not None:
                await forget_history(Client(self), plane)
        return answer


async def test_list_begins_again_when_the_cluster_forgot_its_moment(control_plane: Cluster) -> None:
    config = load_kubeconfig(control_plane.kubeconfig)
    async with ForgetfulTransport(config, plane=control_plane) as transport:
        client = Client(transport)
        names = [f"c-{number}" for number in range(5)]
        for name in names:
            await client.create(CONFIG_MAPS, config_map(name), namespace="default")
        listing = await client.list(CONFIG_MAPS, namespace="default", page_size=2, deadline_seconds=120)
    assert {item["metadata"]["name"] for item in listing.items} == {*names, "kube-root-ca.crt"}
    # One page before history was forgotten, then three of a list that was begun again.
    assert transport.lists == 4


IN_A_POD = """
import asyncio, json
from runyard.kube import Client, Forbidden, load_config
from runyard.kube.resources import CONFIG_MAPS, NODES, PODS

async def main():
    config = load_config()
    async with Client.connect(config) as client:
        pods = await client.list(PODS, namespace=config.namespace)
        try:
            await client.list(NODES)
        except Forbidden as error:
            refusal = error.message
        found = {"namespace": config.namespace, "pods": [pod["metadata"]["name"] for pod in pods.items]}
        body = {"metadata": {"name": "found"}, "data": {"json": json.dumps({**found, "refusal": refusal})}}
        await client.create(CONFIG_MAPS, body, namespace=config.namespace)

asyncio.run(main())
"""


async def test_client_is_its_pods_account_when_it_runs_in_the_cluster(
    client: Client, cluster: Cluster, namespace: str
) -> None:
    """With the packages of this machine, which the node is on, and the image of the interpreter that runs this."""
    folders = {"source": Path(runyard.__file__).parents[1], "packages": Path(aiohttp.__file__).parents[1]}
    rights = {
        "metadata": {"name": "robot"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": namespace}],
    }
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "robot"}}, namespace=namespace)
    await client.create(ROLE_BINDINGS, rights, namespace=namespace)
    spec = {
        "serviceAccountName": "robot",
        "volumes": [{"name": name, "hostPath": {"path": str(path)}} for name, path in folders.items()],
    }
    body = pod(
        "p",
        "",
        spec=spec,
        image="docker.io/library/python:latest",
        command=["python3", "-c", IN_A_POD],
        env=[{"name": "PYTHONPATH", "value": ":".join(f"/{name}" for name in folders)}],
        volumeMounts=[{"name": name, "mountPath": f"/{name}", "readOnly": True} for name in folders],
    )
    await client.create(PODS, body, namespace=namespace)

    async def has_ended() -> bool:
        return (await client.get(PODS, "p", namespace=namespace))["status"]["phase"] in ("Succeeded", "Failed")

    await wait_until(has_ended, seconds=120)
    assert (await client.get(PODS, "p", namespace=namespace))["status"]["phase"] == "Succeeded", cluster.kubectl(
        "logs", "-n", namespace, "p"
    )
    found = json.loads((await client.get(CONFIG_MAPS, "found", namespace=namespace))["data"]["json"])
    assert found["namespace"] == namespace
    assert found["pods"] == ["p"]
    assert f"system:serviceaccount:{namespace}:robot" in found["refusal"]


async def test_cluster_scoped_objects_are_found_when_no_namespace_is_given(client: Client, cluster: Cluster) -> None:
    assert (await client.get(NODES, cluster.node_name))["metadata"]["name"] == cluster.node_name
    everywhere = {item["metadata"]["namespace"] for item in (await client.list(SERVICE_ACCOUNTS)).items}
    assert {"default", "kube-system"} <= everywhere
    assert all(item["kind"] == "Namespace" for item in (await client.list(NAMESPACES)).items)


async def test_pods_are_found_when_selected_by_label_and_field(client: Client, namespace: str) -> None:
    for name, labels in (("a", {"app": "x"}), ("b", {"app": "y"})):
        body = pod(name, "sleep 600", spec={"schedulerName": "nobody"})
        body["metadata"]["labels"] = labels
        await client.create(PODS, body, namespace=namespace)
    by_label = await client.list(PODS, namespace=namespace, label_selector="app in (x, z)")
    assert [item["metadata"]["name"] for item in by_label.items] == ["a"]
    by_field = await client.list(PODS, field_selector=f"metadata.namespace={namespace},metadata.name=b")
    assert [item["metadata"]["name"] for item in by_field.items] == ["b"]
