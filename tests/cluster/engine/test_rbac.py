"""The rights that `runyard server rbac` prints: enough for the engine, no more, and a missing one is named."""

import asyncio
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from runyard.app.engine import EngineUnavailable
from runyard.domain.reasons import Reason
from runyard.domain.resolve_inputs import AdminRules
from runyard.engines.kubernetes.kubernetes_engine import KubernetesEngine
from runyard.engines.kubernetes.kubernetes_settings import KubernetesSettings
from runyard.engines.kubernetes.projects import Projects
from runyard.kube import Client, Forbidden
from runyard.kube.resources import CLUSTER_ROLES, JOBS, NAMESPACES, PODS, ROLE_BINDINGS, ROLES, SECRETS
from testbed.cluster import Cluster
from tests.contract.engine.server_account import ACCOUNT_NAMESPACE, connect_server
from tests.core_process import run_core
from tests.e2e.guides import PROJECT_ROOT, define_kubectl, follow, list_commands, read_part

PAGE = PROJECT_ROOT / "docs" / "operators" / "kubernetes.md"
PER_PROJECT = KubernetesSettings(installation="i1")


@asynccontextmanager
async def connect(cluster: Cluster, admin: Client, *, namespace: str | None = None) -> AsyncIterator[Client]:
    async with Client.connect(await connect_server(cluster, admin, namespace=namespace)) as client:
        yield client


def test_printed_roles_are_taken_by_kubectl_when_they_are_applied(control_plane: Cluster) -> None:
    for options in (["--namespace", "default"], ["--namespace-per-project"]):
        argv = [str(Path(sys.executable).with_name("runyard")), "server", "rbac", *options]
        printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        control_plane.kubectl("apply", "--dry-run=server", "-f", "-", stdin=printed)


async def test_server_opens_its_cluster_when_the_page_for_a_server_beside_it_is_followed(
    control_plane: Cluster, tmp_path: Path
) -> None:
    commands = list_commands(read_part(PAGE, "beside the cluster"))
    assert len(commands) == 6
    definitions = define_kubectl(control_plane.directory / "bin", control_plane.kubeconfig)
    await asyncio.to_thread(follow, commands, definitions=definitions, folder=tmp_path)
    options = ("--engine", "kubernetes", "--kubeconfig", str(tmp_path / "server.kubeconfig"), "--namespace-per-project")
    with run_core(*options, folder=tmp_path) as core:
        async with core.client() as client:
            engine = (await client.get("/api/v1/engine")).json()
            made = await client.post("/api/v1/projects", json={"kind": "project", "name": "beside"})
    place = control_plane.kubectl("get", "namespace", "kube-system", "--output=jsonpath={.metadata.uid}")
    assert engine["place"] == f"kubernetes/{place}", engine
    assert made.status_code == 200, made.text


async def test_server_opens_the_cluster_of_the_kubeconfig_when_the_readme_is_followed(
    control_plane: Cluster, tmp_path: Path
) -> None:
    *before, (command, _) = list_commands(read_part(PROJECT_ROOT / "README.md", "your cluster"))
    assert len(before) == 1
    definitions = define_kubectl(control_plane.directory / "bin", control_plane.kubeconfig)
    await asyncio.to_thread(follow, before, definitions=definitions, folder=tmp_path)
    program, group, *options = shlex.split(command)
    assert (program, group) == ("runyard", "server")
    with run_core(*options, folder=tmp_path, environment={"KUBECONFIG": str(control_plane.kubeconfig)}) as core:
        async with core.client() as client:
            engine = (await client.get("/api/v1/engine")).json()
    assert engine["place"].startswith("kubernetes/"), engine


async def test_every_missing_right_is_named_when_the_engine_opens(plane_client: Client, control_plane: Cluster) -> None:
    await plane_client.create(NAMESPACES, {"metadata": {"name": "poor"}})
    config = await connect_server(control_plane, plane_client, namespace="poor")
    role = await plane_client.get(ROLES, "runyard-server", namespace="poor")
    rules = [rule for rule in role["rules"] if rule["resources"] != ["jobs"]]
    await plane_client.replace(ROLES, {**role, "rules": rules})
    with pytest.raises(EngineUnavailable) as missing:
        await KubernetesEngine.open(KubernetesSettings(installation="i1", namespace="poor"), config)
    assert missing.value.code == Reason.KUBE_PERMISSIONS
    for verb in ("get", "list", "watch", "create", "patch", "delete"):
        assert f"{verb} jobs.batch in poor" in str(missing.value)
    assert "pods" not in str(missing.value)


async def test_projects_are_prepared_and_removed_when_the_server_has_only_these_rights(
    plane_client: Client, control_plane: Cluster
) -> None:
    async with connect(control_plane, plane_client) as server:
        await Projects(server, PER_PROJECT).ensure_project("own", AdminRules())
        await server.list(JOBS, namespace="runyard-own")
        with pytest.raises(Forbidden):
            await server.list(SECRETS, namespace="runyard-own")
        assert not await Projects(server, PER_PROJECT).remove_project("own")


async def test_server_is_kept_out_when_a_namespace_is_not_its_own(plane_client: Client, control_plane: Cluster) -> None:
    binding = {
        "metadata": {"name": "x"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "runyard-project"},
        "subjects": [{"kind": "ServiceAccount", "namespace": ACCOUNT_NAMESPACE, "name": "server"}],
    }
    async with connect(control_plane, plane_client) as server:
        await Projects(server, PER_PROJECT).ensure_project("fenced", AdminRules())
        with pytest.raises(Forbidden, match="may only touch namespaces"):
            await server.create(NAMESPACES, {"metadata": {"name": "mine"}})
        with pytest.raises(Forbidden, match="may only touch namespaces"):
            await server.delete(NAMESPACES, ACCOUNT_NAMESPACE)
        with pytest.raises(Forbidden, match="may only touch namespaces"):
            await server.create(ROLE_BINDINGS, binding, namespace="kube-system")
        other = {**binding, "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "friend"}]}
        with pytest.raises(Forbidden, match="may only bind"):
            await server.create(ROLE_BINDINGS, other, namespace="runyard-fenced")
        for forbidden in (
            server.create(PODS, {"metadata": {"name": "x"}, "spec": {}}, namespace="kube-system"),
            server.list(CLUSTER_ROLES),
            server.get(SECRETS, "x", namespace="kube-system"),
        ):
            with pytest.raises(Forbidden):
                await forbidden
