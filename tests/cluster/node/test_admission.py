"""The admission objects on a real control plane: what the policies do is what the pure functions say."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from runyard.kube import Client, Conflict, Forbidden
from runyard.kube.config import load_kubeconfig
from runyard.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICIES_V1BETA1,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    MUTATING_ADMISSION_POLICY_BINDINGS_V1BETA1,
    MUTATING_WEBHOOK_CONFIGURATIONS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    RUNTIME_CLASSES,
    SERVICE_ACCOUNTS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    Resource,
)
from runyard.node.admission.filling import fill_pod, plan_fillings
from runyard.node.admission.judgement import judge_pod
from runyard.node.admission.policies import (
    render_binding_policy,
    render_filling_policy,
    render_webhook_configuration,
)
from runyard.node.admission.webhook import review
from runyard.node.ledger import Ledger
from runyard.node.offer import CPU, GPU, MEMORY, Offer, Shape
from runyard.node.offer_file import load_offer
from runyard.node.runtime_classes import Outcome, ensure_runtime_classes
from runyard.spec.kubernetes.quantity import Quantity
from testbed.cluster import Cluster
from testbed.pki import Authority
from testbed.pytest_plugin import kubernetes_version, require_machine
from testbed.site import Options
from tests.cluster.kube.conditions import wait_until
from tests.cluster.node.admission_pods import CLASS, WRITTEN, Object, container, generate_pods, pod
from tests.cluster.node.agent_bed import FILLING, IS_BETA, POLICY_FLAGS

NODE = "k8s.gpu"
AGENT = "system:serviceaccount:kube-system:runyard-node"
BINDINGS = Resource("", "v1", "bindings", "Binding", namespaced=True)
OFFER = load_offer("""
capacity: {cpu: 63, memory: 263567056Ki, nvidia.com/gpu: 8, pods: 8}
shapes:
  - {name: seeweb-nvidia-1xa6000, handler: nvidia, limits: {cpu: 8000m, memory: 32861620Ki, gpu: 1}}
  - {name: seeweb-nvidia-2xa6000, handler: nvidia, limits: {cpu: 16, memory: 64Gi, gpu: 2}}
""")


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane with the node's classes and policies, and with the agent's service account."""
    require_machine(node=False)
    options = Options(kubernetes=kubernetes_version(), node=False, flags=POLICY_FLAGS)
    cluster = Cluster.up(f"admission-{os.getpid()}", options, outlives_us=False)
    try:
        asyncio.run(_install(cluster))
        yield cluster
    finally:
        cluster.down()


async def _install(cluster: Cluster) -> None:
    policies, bindings = MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS
    if IS_BETA:
        policies, bindings = MUTATING_ADMISSION_POLICIES_V1BETA1, MUTATING_ADMISSION_POLICY_BINDINGS_V1BETA1
    async with Client.connect(load_kubeconfig(cluster.kubeconfig)) as client:
        assert await ensure_runtime_classes(client, OFFER, node_name=NODE) == Outcome()
        filling = render_filling_policy(NODE, version=FILLING, scheduler_name=NODE)
        binding = render_binding_policy(NODE, binder=AGENT)
        await client.create(policies, filling[0])
        await client.create(bindings, filling[1])
        await client.create(VALIDATING_ADMISSION_POLICIES, binding[0])
        await client.create(VALIDATING_ADMISSION_POLICY_BINDINGS, binding[1])
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "runyard-node"}}, namespace="kube-system")
        role = {
            "metadata": {"name": "agent"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "namespace": "kube-system", "name": "runyard-node"}],
        }
        await client.create(CLUSTER_ROLE_BINDINGS, role)

        async def is_in_effect() -> bool:
            try:
                made = await client.create(PODS, pod(container()), namespace="default", dry_run=True)
                await client.create(PODS, pod(container(), nodeName=NODE), namespace="default", dry_run=True)
            except Forbidden as error:
                # Before its service account exists no pod can be created at all.
                return "places pods on the node" in str(error) and made["spec"]["schedulerName"] == NODE
            return False

        await wait_until(is_in_effect, seconds=60)


@pytest.fixture
async def client(plane: Cluster) -> AsyncIterator[Client]:
    """The admin, who may do everything but place pods on the node."""
    async with Client.connect(load_kubeconfig(plane.kubeconfig)) as client:
        yield client


@pytest.fixture
async def agent(plane: Cluster, client: Client, tmp_path: Path) -> AsyncIterator[Client]:
    """The agent's service account."""
    token = (await client.create_token("runyard-node", namespace="kube-system"))["status"]["token"]
    kubeconfig = plane.write_kubeconfig(tmp_path / "kubeconfig", token=token)
    async with Client.connect(load_kubeconfig(kubeconfig)) as agent:
        yield agent


async def send(client: Client, given: Object) -> Object:
    """The pod as the apiserver would store it."""
    return await client.create(PODS, given, namespace="default", dry_run=True)


def list_limits(given: Object) -> dict[str, dict[str, Quantity]]:
    """The limits of each container that admission may fill; the apiserver rounds cpu up to millicores."""
    spec = given["spec"]
    return {
        each["name"]: {
            name: Quantity.parse(text)
            for name, text in ((each.get("resources") or {}).get("limits") or {}).items()
            if name in (CPU, MEMORY, GPU)
        }
        for each in spec["containers"] + spec.get("initContainers", [])
    }


async def compare(client: Client, given: Object, *, class_name: str = CLASS) -> str:
    """What differs between the policy or webhook and `filling.py`; empty if nothing does."""
    made = await send(client, {**given, "spec": {**given["spec"], "runtimeClassName": class_name}})
    # What the apiserver stores of the user's own figures is the start: it rounds them.
    plain = await send(client, {**given, "spec": {**given["spec"], "runtimeClassName": "runc"}})
    expected = list_limits(fill_pod(plain, plan_fillings(plain, OFFER.shapes[CLASS])))
    found = list_limits(made)
    if made["spec"]["schedulerName"] != NODE:
        return f"schedulerName is {made['spec']['schedulerName']}"
    return "" if found == expected else f"admission: {found}; filling.py: {expected}"


async def compare_all(client: Client, pods: Mapping[str, Object], *, class_name: str = CLASS) -> dict[str, str]:
    async with asyncio.TaskGroup() as group:
        tasks = {name: group.create_task(compare(client, given, class_name=class_name)) for name, given in pods.items()}
    return {name: task.result() for name, task in tasks.items() if task.result()}


async def ensure_plain_class(client: Client) -> None:
    await client.apply(RUNTIME_CLASSES, {"metadata": {"name": "runc"}, "handler": "runc"}, field_manager="test")


async def test_policy_fills_like_the_pure_function_when_pods_are_edge_cases(client: Client) -> None:
    await ensure_plain_class(client)
    assert await compare_all(client, WRITTEN) == {}


async def test_policy_fills_like_the_pure_function_when_pods_are_generated(client: Client) -> None:
    await ensure_plain_class(client)
    pods = {str(number): given for number, given in enumerate(generate_pods(15, 40))}
    assert await compare_all(client, pods) == {}


async def test_filled_pod_is_accepted_by_the_judge_when_it_stated_nothing(client: Client) -> None:
    made = await send(client, pod(container("a"), container("b"), init=[container("i")]))
    labels = {"kubernetes.io/hostname": NODE}
    judged = judge_pod(made, OFFER.shapes[CLASS], node_name=NODE, node_labels=labels, scheduler_name=NODE)
    assert judged == ()
    assert made["spec"]["containers"][0]["resources"] == {
        side: {"cpu": "4", "memory": "16430810Ki", "nvidia.com/gpu": "1"} for side in ("limits", "requests")
    }
    assert made["status"]["qosClass"] == "Guaranteed"


async def test_pods_are_untouched_when_their_class_is_not_the_nodes(client: Client) -> None:
    await ensure_plain_class(client)
    for fields in ({"runtimeClassName": "runc"}, {"runtimeClassName": None}):
        made = await send(client, pod(container(), **fields))
        assert made["spec"]["schedulerName"] == "default-scheduler"
        assert made["spec"]["containers"][0]["resources"] == {}


async def test_quota_counts_the_filled_pod_when_it_stated_nothing(client: Client) -> None:
    namespace = "quota"
    await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    hard = {"limits.cpu": "12", "requests.memory": "64Gi", "requests.nvidia.com/gpu": "2"}
    await client.create(RESOURCE_QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}}, namespace=namespace)

    async def is_counted() -> bool:
        quota = await client.get(RESOURCE_QUOTAS, "q", namespace=namespace)
        return bool(quota.get("status", {}).get("hard") == hard)

    async def create() -> Object:
        return await client.create(PODS, pod(container()), namespace=namespace)

    await wait_until(is_counted)
    await create()
    used = (await client.get(RESOURCE_QUOTAS, "q", namespace=namespace))["status"]["used"]
    assert used == {"limits.cpu": "8", "requests.memory": "32861620Ki", "requests.nvidia.com/gpu": "1"}
    with pytest.raises(Forbidden, match=r"exceeded quota: q, requested: limits.cpu=8, used: limits.cpu=8"):
        await create()


def binding_to(name: str, node: str) -> Object:
    return {"metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}


async def test_nobody_but_the_agent_places_pods_on_the_node_when_they_bind_or_name_it(
    client: Client, agent: Client
) -> None:
    words = "places pods on the node k8s.gpu"
    made = await client.create(PODS, pod(container()), namespace="default")
    name, uid = made["metadata"]["name"], made["metadata"]["uid"]
    with pytest.raises(Forbidden, match=words):
        await client.create(PODS, pod(container(), nodeName=NODE), namespace="default")
    with pytest.raises(Forbidden, match=words):
        await client.bind(name, namespace="default", node=NODE, uid=uid)
    with pytest.raises(Forbidden, match=words):
        await client.create(BINDINGS, binding_to(name, NODE), namespace="default")
    await client.bind(name, namespace="default", node="another", uid=uid, dry_run=True)
    await client.create(PODS, pod(container(), nodeName="another"), namespace="default", dry_run=True)
    await agent.bind(name, namespace="default", node=NODE, uid=uid)
    assert (await client.get(PODS, name, namespace="default"))["spec"]["nodeName"] == NODE
    with pytest.raises(Conflict):
        await agent.bind(name, namespace="default", node=NODE, uid=uid)
    await client.delete(PODS, name, namespace="default", uid=uid, grace_period_seconds=0)


async def test_pods_on_the_node_stay_as_they_are_when_somebody_changes_them(client: Client, agent: Client) -> None:
    await client.create(NODES, {"metadata": {"name": NODE}})
    # From 1.36 on the apiserver compares a resize with the node before it asks policies.
    figures = Ledger(OFFER.capacity).capacity()
    await client.patch(NODES, NODE, {"status": {"capacity": figures, "allocatable": figures}}, subresource="status")
    made = await client.create(PODS, pod(container()), namespace="default")
    name, uid = made["metadata"]["name"], made["metadata"]["uid"]
    await agent.bind(name, namespace="default", node=NODE, uid=uid)
    amounts = {"cpu": "1", "memory": "1Gi"}
    changes: dict[str, Object] = {
        "resize": {"containers": [{"name": "main", "resources": {"limits": amounts, "requests": amounts}}]},
        "ephemeralcontainers": {"ephemeralContainers": [{"name": "debug", "image": "busybox"}]},
    }
    for subresource, spec in changes.items():
        with pytest.raises(Forbidden, match="cannot be resized or get ephemeral containers"):
            await client.patch(
                PODS, name, {"spec": spec}, namespace="default", kind="strategic", subresource=subresource
            )
    await client.delete(PODS, name, namespace="default", uid=uid, grace_period_seconds=0)


async def test_webhook_configuration_is_accepted_when_it_names_a_service(plane: Cluster, client: Client) -> None:
    certificate = plane.ca_file.read_bytes()
    made = render_webhook_configuration(NODE, ca_certificate=certificate, service=("kube-system", "runyard-node"))
    await client.create(MUTATING_WEBHOOK_CONFIGURATIONS, made, dry_run=True)


@asynccontextmanager
async def serve_webhook(
    plane: Cluster, shapes: Mapping[str, Shape], *, folder: Path
) -> AsyncIterator[tuple[str, bytes]]:
    """`review` behind HTTPS: its URL, and the certificate of its authority."""
    authority = Authority(folder)
    host = plane.site.addresses.host_ip
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.issue("webhook", common_name="webhook", hosts=[host]))

    async def answer(request: web.Request) -> web.Response:
        body = review(await request.read(), shapes, scheduler_name=NODE)
        return web.Response(body=body, content_type="application/json")

    app = web.Application()
    app.router.add_post("/admission", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, 0, ssl_context=context).start()
        port = runner.addresses[0][1]
        yield f"https://{host}:{port}/admission", authority.certificate_file.read_bytes()
    finally:
        await runner.cleanup()


async def test_webhook_fills_like_the_pure_function_when_there_is_no_policy(
    plane: Cluster, client: Client, tmp_path: Path
) -> None:
    await ensure_plain_class(client)
    # A class of another node, so that the policy leaves it alone.
    shape = replace(OFFER.shapes[CLASS], name="hooked")
    assert await ensure_runtime_classes(client, offer_of(shape), node_name="hooked.node") == Outcome()
    async with serve_webhook(plane, {shape.name: shape}, folder=tmp_path) as (url, certificate):
        made = render_webhook_configuration("hooked.node", ca_certificate=certificate, url=url)
        await client.create(MUTATING_WEBHOOK_CONFIGURATIONS, made)

        async def is_in_effect() -> bool:
            sent = await send(client, pod(container(), runtimeClassName=shape.name))
            return bool(sent["spec"]["schedulerName"] == NODE)

        await wait_until(is_in_effect)
        assert await compare_all(client, WRITTEN, class_name=shape.name) == {}
    # Nobody answers now: the pod is created, and is not filled.
    sent = await send(client, pod(container(), runtimeClassName=shape.name))
    assert sent["spec"]["containers"][0]["resources"] == {}
    await client.delete(MUTATING_WEBHOOK_CONFIGURATIONS, made["metadata"]["name"])


def offer_of(*shapes: Shape) -> Offer:
    return Offer({shape.name: shape for shape in shapes}, {})


def shape_of(name: str, *, cpu: str = "8000m", handler: str = "nvidia") -> Shape:
    texts = {CPU: cpu, MEMORY: "32861620Ki", GPU: "1"}
    return Shape(name, handler, {key: Quantity.parse(text) for key, text in texts.items()}, limit_texts=texts)


async def list_classes(client: Client, node: str) -> dict[str, tuple[str, Any, str]]:
    listing = await client.list(RUNTIME_CLASSES, label_selector=f"k8s.gpu={node}")
    return {
        item["metadata"]["name"]: (
            item["handler"],
            item["metadata"]["annotations"]["limits.k8s.gpu/cpu"],
            item["metadata"]["uid"],
        )
        for item in listing.items
    }


async def test_classes_follow_the_offer_when_it_changes(client: Client) -> None:
    node = "other.node"
    await client.create(RUNTIME_CLASSES, {"metadata": {"name": "theirs"}, "handler": "runc"})
    offered = offer_of(shape_of("a"), shape_of("b"), shape_of("c"), shape_of("theirs"))
    assert await ensure_runtime_classes(client, offered, node_name=node) == Outcome(foreign=("theirs",))
    before = await list_classes(client, node)
    assert {name: seen[:2] for name, seen in before.items()} == dict.fromkeys("abc", ("nvidia", "8000m"))

    changed = offer_of(shape_of("a", cpu="7625m"), shape_of("b", handler="kata"), shape_of("d"))
    for _ in range(2):
        assert await ensure_runtime_classes(client, changed, node_name=node) == Outcome()
    after = await list_classes(client, node)
    assert {name: seen[:2] for name, seen in after.items()} == {
        "a": ("nvidia", "7625m"),
        "b": ("kata", "8000m"),
        "d": ("nvidia", "8000m"),
    }
    assert after["a"][2] == before["a"][2]
    assert after["b"][2] != before["b"][2]

    assert await ensure_runtime_classes(client, Offer({}, {}), node_name=node) == Outcome()
    assert await list_classes(client, node) == {}
    assert (await client.get(RUNTIME_CLASSES, "theirs"))["handler"] == "runc"
    assert set(await list_classes(client, NODE)) == set(OFFER.shapes)
