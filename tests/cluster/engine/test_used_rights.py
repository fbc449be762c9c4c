"""Every right that `runyard server rbac` prints is used, and no other: by the audit log of the session's cluster."""

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from runyard.app.engine import Assignment, KeptVolume, Session
from runyard.domain.outcomes import Seen
from runyard.domain.resolve_inputs import AdminRules
from runyard.engines.kubernetes import projects as projects_module
from runyard.engines.kubernetes.kubernetes_engine import KubernetesEngine
from runyard.engines.kubernetes.kubernetes_settings import ProjectLimits
from runyard.engines.kubernetes.projects import Projects
from runyard.engines.kubernetes.rbac import render_rbac
from runyard.kube.resources import NODES, VALIDATING_ADMISSION_POLICIES
from runyard.manifests.metadata import INSTALLATION_LABEL
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.policy import read_policy
from runyard.spec.volumes import Volume
from testbed.cluster import Cluster
from tests.cluster.engine.audited_rights import GrantedRight, list_printed, list_refused, list_used
from tests.contract.engine.kubernetes_lab import KubernetesLab, open_kubernetes_lab
from tests.contract.engine.lab import (
    FixedAccess,
    assign,
    assign_again,
    assign_service,
    begin_and_see,
    eventually,
    join,
    make_anchor,
    read_log,
    recording,
    see,
    settle,
)
from tests.contract.engine.scripts import WAIT_FOREVER, leave, say, wait_for
from tests.contract.engine.server_account import ACCOUNT_NAMESPACE

RULES = AdminRules()
LIMITS = ProjectLimits(quota={"pods": "50"}, default_requests={"cpu": "1m"})
APPLIES = "server-side apply is a patch: the apiserver asks for `create` too if the object does not exist"
OPENS = "a WebSocket is opened by a GET: Kubernetes from 1.35 on asks for `create` too, within that request"
IN_BOTH: Mapping[GrantedRight, str] = {
    GrantedRight("namespaces", "create", "", f"pods/{part}"): OPENS for part in ("exec", "attach", "portforward")
}
PER_PROJECT: Mapping[GrantedRight, str] = {
    GrantedRight("cluster", "bind", "rbac.authorization.k8s.io", "clusterroles"): "asked within `patch rolebindings`",
    GrantedRight("cluster", "create", "rbac.authorization.k8s.io", "rolebindings"): APPLIES,
    GrantedRight("namespaces", "create", "networking.k8s.io", "networkpolicies"): APPLIES,
    GrantedRight("namespaces", "create", "", "resourcequotas"): APPLIES,
    GrantedRight("namespaces", "create", "", "limitranges"): APPLIES,
}
"""Rights that the apiserver asks for within another request: an audit log does not show them."""


def get_engine(lab: KubernetesLab) -> KubernetesEngine:
    assert isinstance(lab.engine, KubernetesEngine)
    return lab.engine


async def use_job(lab: KubernetesLab) -> None:
    """It has output, sessions and usage, is stopped and settled, and its anchor is removed."""
    run = assign(lab, say("hello"), WAIT_FOREVER)
    engine, uid = get_engine(lab), await lab.engine.ensure_anchor(run)
    assert await engine.ensure_anchor(run) == uid
    await engine.release(run, uid)
    anchor = make_anchor(run, uid)
    await see(lab, anchor, Seen.RUNNING)
    for channel in (
        await engine.open_exec(anchor, Session(command=("true",))),
        await engine.open_attach(anchor, Session()),
        await engine.open_port(anchor, 8080),
    ):
        await channel.close()
    assert len(await engine.list_usage(anchor)) == 1
    assert (await engine.describe(anchor))["pods"]
    await engine.list_defaults(lab.project, run.effective)
    stopped = assign_again(run, generation=2)
    await engine.stop(stopped, uid)
    await see(lab, anchor, Seen.STOPPED)
    (source,) = await engine.list_log_sources(anchor)
    assert join(await read_log(lab, source)) == b"hello\n"
    await settle(lab, stopped, uid)
    await engine.remove(anchor)


async def use_job_without_a_node(lab: KubernetesLab) -> None:
    """It is stopped while its second pod waits for a node: that pod is deleted."""
    label = f"lab-{secrets.token_hex(4)}"
    run = assign(
        lab, say("hello"), wait_for("go"), leave(1), spec={"node_selector": {label: "yes"}, "backoff_limit": 1}
    )
    await label_node(lab, {label: "yes"})
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    await label_node(lab, {label: None})
    await lab.send(run, "go")

    async def list_nodes() -> list[str | None]:
        return [pod["spec"].get("nodeName") for pod in (await get_engine(lab).describe(anchor))["pods"]]

    await eventually(lab, list_nodes, lambda nodes: None in nodes and len(nodes) == 2)
    await lab.engine.stop(assign_again(run, generation=2), anchor.uid)
    assert None not in await eventually(lab, list_nodes, lambda nodes: None not in nodes)


async def label_node(lab: KubernetesLab, labels: Mapping[str, str | None]) -> None:
    await lab.client.patch(NODES, lab.cluster.node_name, {"metadata": {"labels": labels}})


def assign_with_everything(lab: KubernetesLab, run_id: str, *, service: str = "api") -> Assignment:
    """A service with every kind of object that a run owns."""
    volumes = (
        Volume(name="data", type="persistent_volume_claim", mount_path="/data", size=Quantity.parse("16Mi")),
        Volume(name="files", type="config_map", mount_path="/files", data={"a": "b"}),
    )
    return assign_service(
        lab, say("hello"), WAIT_FOREVER, run_id=run_id, spec={"service_name": service, "volumes": volumes}
    )


async def use_service(lab: KubernetesLab) -> None:
    """It is stopped and started again; another takes its name over; all go."""
    run = assign_with_everything(lab, "first")
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    (source,) = await lab.engine.list_log_sources(anchor)
    async with recording(lab.engine.follow_log(source)) as log:
        await eventually(lab, log.read_content, lambda content: content == b"hello\n")
    await lab.engine.stop(assign_again(run, generation=2), anchor.uid)
    await see(lab, anchor, Seen.STOPPED)
    await lab.engine.release(assign_again(run, generation=3), anchor.uid)
    await see(lab, anchor, Seen.RUNNING)
    second = assign_with_everything(lab, "second")
    successor = await begin_and_see(lab, second, Seen.RUNNING)
    await get_engine(lab).take_service_name(second, successor.uid)
    for one in (anchor, successor):
        assert await lab.engine.describe(one)
        await lab.engine.remove(one)


async def use_service_that_is_lost(lab: KubernetesLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody deletes its anchor while it is released: what was created for it is deleted at once."""
    run = assign_with_everything(lab, "third", service="other")
    uid = await lab.engine.ensure_anchor(run)
    transport = get_engine(lab)._client.transport
    request = transport.request

    async def lose_and_send(method: str, path: str, **options: Any) -> bytes:
        if method == "PATCH":
            await lab.lose(run)
        return await request(method, path, **options)

    with monkeypatch.context() as patched:
        patched.setattr(transport, "request", lose_and_send)
        await lab.engine.release(run, uid)
    await eventually(lab, lambda: lab.count_objects(run.run_uid), lambda count: count == 0)


async def use_volumes_and_registries(lab: KubernetesLab) -> None:
    unique = secrets.token_hex(4)
    volume = KeptVolume(project=lab.project, claim=f"vol-{unique}", volume_id=f"v-{unique}", size="16Mi")
    await lab.engine.ensure_volume(volume)
    await lab.engine.ensure_volume(volume)
    assert volume.claim in {state.claim for state in await lab.engine.list_volumes()}
    await eventually(lab, lambda: lab.engine.remove_volume(volume), lambda gone: gone)
    await get_engine(lab).ensure_registries(lab.project, FixedAccess().read_registries)


async def use_project(lab: KubernetesLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets quotas, and loses them; its policy is changed, by an admin and by somebody else; it is removed."""
    client, project = get_engine(lab)._client, f"own-{secrets.token_hex(4)}"
    monkeypatch.setattr(projects_module, "UNUSED_SECONDS", -1)
    limited = Projects(client, replace(lab.make_settings(), project_limits=LIMITS))
    await limited.ensure_project(project, RULES)
    projects = Projects(client, replace(lab.make_settings(), project_limits=ProjectLimits(is_network_isolated=False)))
    relaxed = AdminRules(policy=read_policy({"platform": {"pod_security": "baseline"}}))
    await projects.ensure_project(project, relaxed)
    selector = f"{INSTALLATION_LABEL}={lab.installation}"
    for policy in (await lab.client.list(VALIDATING_ADMISSION_POLICIES, label_selector=selector)).items:
        changed = {"spec": {"validations": [{"expression": "false"}]}}
        await lab.client.patch(VALIDATING_ADMISSION_POLICIES, policy["metadata"]["name"], changed)
    await projects.ensure_project(project, relaxed)
    async with asyncio.timeout(90):
        while not await projects.remove_project(project):  # noqa: ASYNC110 - the cluster does it
            await asyncio.sleep(0.2)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("is_shared", [True, False], ids=["one namespace", "a namespace per project"])
async def test_every_printed_right_is_used_and_nothing_is_refused_when_the_server_has_no_view_of_the_cluster(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *, is_shared: bool
) -> None:
    """As `--no-cluster-view` prints them: the engine does all it can do, and says what it does not see."""
    account = f"server-{secrets.token_hex(4)}"
    async with open_kubernetes_lab(cluster, is_shared=is_shared, account=account, has_view=False) as lab:
        await use_job(lab)
        await use_job_without_a_node(lab)
        await use_service(lab)
        await use_service_that_is_lost(lab, monkeypatch)
        await use_volumes_and_registries(lab)
        if not is_shared:
            await use_project(lab, monkeypatch)
        snapshot = await lab.engine.snapshot()
        namespace = lab.get_namespace(lab.project) if is_shared else None
    missing = ["list and watch nodes", "list and watch pods in all namespaces"]
    assert [one.missing for one in snapshot.unseen] == (missing if is_shared else missing[:1])
    printed = list_printed(render_rbac(namespace=namespace, account=(ACCOUNT_NAMESPACE, account), has_view=False))
    used = list_used(cluster.site.logs, account=account, roles="runyard-")
    unseen = {**IN_BOTH} if is_shared else {**IN_BOTH, **PER_PROJECT}
    assert used <= printed
    assert printed - used == unseen.keys()
    # Reads of the cluster that the engine tries and does without. Rights in a new namespace take a moment to count.
    tried = {("list", kind, "") for kind in ("priorityclasses", "storageclasses", "runtimeclasses")}
    assert find_refused(cluster, account) == (tried if is_shared else set())


@pytest.mark.parametrize("is_shared", [True, False], ids=["one namespace", "a namespace per project"])
async def test_every_right_to_view_the_cluster_is_used_when_the_server_has_them(
    cluster: Cluster, *, is_shared: bool
) -> None:
    account = f"server-{secrets.token_hex(4)}"
    async with open_kubernetes_lab(cluster, is_shared=is_shared, account=account) as lab:
        snapshot = await lab.engine.snapshot()
        await get_engine(lab).list_defaults(lab.project, assign(lab).effective)
        namespace = lab.get_namespace(lab.project) if is_shared else None
    assert snapshot.unseen == ()
    assert snapshot.nodes
    whole, without = (
        list_printed(render_rbac(namespace=namespace, account=(ACCOUNT_NAMESPACE, account), has_view=has_view))
        for has_view in (True, False)
    )
    assert whole - without <= list_used(cluster.site.logs, account=account, roles="runyard-")
    assert find_refused(cluster, account) == set()


def find_refused(cluster: Cluster, account: str) -> set[tuple[str, str, str]]:
    """What was refused, except in a project's namespace: the apiserver learns of its new binding a moment later."""
    return {one for one in list_refused(cluster.site.logs, account=account) if not one[2].startswith("runyard-")}
