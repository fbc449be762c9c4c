"""Rendered runs against a real apiserver: it takes every object as it is, and collects what an anchor owns."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from runyard.domain.admission import admit_project_objects
from runyard.domain.effective_spec import EffectiveSpec
from runyard.kube.client import Client
from runyard.kube.config import load_kubeconfig
from runyard.kube.errors import Forbidden, Invalid, NotFound
from runyard.kube.objects import Object
from runyard.kube.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from runyard.manifests.identity import Owner, PlatformInputs, RunIdentity
from runyard.manifests.names import claim_name, run_name
from runyard.manifests.project_objects import (
    ProjectIdentity,
    render_kept_claim,
    render_registry_secret,
)
from runyard.manifests.render import render_anchor, render_dependents, render_kept_claims, render_run
from runyard.spec.environment import SecretUse
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.launcher import Launcher
from runyard.spec.registries import RegistryCredential
from testbed.cluster import Cluster
from testbed.pytest_plugin import kubernetes_version
from tests.cluster.kube.conditions import wait_until
from tests.unit.manifests.samples import SECRET_VALUES, SPECS, claim, make_spec, make_volume

RESOURCES: dict[str, Resource] = {
    resource.kind: resource
    for resource in (SECRETS, CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, JOBS, DEPLOYMENTS, SERVICES)
}
# 1.34 has image volumes behind a gate that is closed.
RENDERED = [name for name in SPECS if (name, kubernetes_version()) != ("image volume", "1.34")]
PLATFORM = PlatformInputs(
    endpoint="https://runyard.example",
    has_token=True,
    launcher=Launcher(image="launcher:1", install=("/l", "install"), start=("/runyard/l",)),
    has_registry_secret=True,
)
ADA = RunIdentity(
    run_id="Run_1+a.b",
    run_uid="0b5c1f0e7d5e4a3b9a517a9ed1f0c001",
    project="vision",
    installation="prod ü",
    user="ada@example.com",
    function="My.Detector+1",
    run_name="nightly ü",
)
IDENTITIES = {
    "plain": RunIdentity(run_id="r1", run_uid="u1", project="vision"),
    "odd": ADA,
    "longest plain": replace(ADA, run_id="a" * 40, function="f" * 256),
    "longest": replace(ADA, run_id="A" * 256, run_uid="A" * 256, project="p" * 38, user="u" * 500),
    "nothing legal": replace(ADA, run_id="+._-+", run_uid="+", user="@", function="---"),
}


@pytest.fixture
async def client(control_plane: Cluster) -> AsyncIterator[Client]:
    async with Client.connect(load_kubeconfig(control_plane.kubeconfig)) as client:
        yield client


async def make_namespace(client: Client, level: str) -> str:
    """A namespace that enforces a Pod Security level, with what the samples name. Idempotent."""
    name = f"enforced-{level}"
    labels = {"pod-security.kubernetes.io/enforce": level}
    await client.apply(NAMESPACES, {"metadata": {"name": name, "labels": labels}}, field_manager="test")
    for account in ("default", "trainer"):
        await client.apply(SERVICE_ACCOUNTS, {"metadata": {"name": account}}, namespace=name, field_manager="test")
    await client.apply(PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 5}, field_manager="test")
    await client.apply(RUNTIME_CLASSES, {"metadata": {"name": "gvisor"}, "handler": "runsc"}, field_manager="test")
    return name


def pod_of(workload: Object) -> Object:
    """The pod that a controller would make of a Job or Deployment."""
    template = workload["spec"]["template"]
    metadata = {"generateName": f"{workload['metadata']['name']}-", **template["metadata"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def assert_kept(sent: Any, answered: Any, path: str = "") -> None:
    """All that was sent stands in the answer: the server may fill in, and dropped or changed nothing."""
    if isinstance(sent, dict):
        for key, value in sent.items():
            if value == "" and key not in answered:
                continue  # the same to Kubernetes, whose answers leave empty texts out
            assert key in answered, f"{path}.{key} was dropped"
            assert_kept(value, answered[key], f"{path}.{key}")
    elif isinstance(sent, list):
        # Admission adds tolerations to pods; nothing may be lost.
        for index, value in enumerate(sent):
            assert_kept(value, answered[index], f"{path}[{index}]")
    else:
        assert answered == sent, path


async def dry_run(client: Client, resource: Resource, obj: Object, namespace: str) -> str:
    """Have the apiserver judge an object; its kind, once all that was sent stands in the answer."""
    answered = await client.create(resource, obj, namespace=namespace, dry_run=True)
    assert_kept(obj, answered, obj["kind"])
    return str(answered["kind"])


async def dry_run_all(client: Client, spec: EffectiveSpec, identity: RunIdentity) -> list[str]:
    """The kinds of the objects that the apiserver took: as they run, the anchor, its dependents, and a pod."""
    namespace = await make_namespace(client, spec.pod_security)
    here = replace(identity, namespace=namespace)
    token = "t0ken" if identity.platform.has_token else None
    objects = render_run(spec, here, secret_values=SECRET_VALUES, token=token)
    owner = Owner("Job", run_name(IDENTITIES["plain"]), "5b0a3f1e-0000-4000-8000-000000000000")
    dependents = render_dependents(spec, here, owner=owner, secret_values=SECRET_VALUES, token=token)
    anchor = render_anchor(spec, here)
    sent = (*objects, anchor, *dependents)
    taken = [await dry_run(client, RESOURCES[obj["kind"]], obj, namespace) for obj in sent]
    # The plugin only warns about the template of a Job or Deployment; pods are what it refuses.
    return [*taken, await dry_run(client, PODS, pod_of(anchor), namespace)]


@pytest.mark.parametrize("sample", RENDERED)
async def test_apiserver_takes_every_object_when_a_sample_is_rendered(client: Client, sample: str) -> None:
    taken = await dry_run_all(client, SPECS[sample], IDENTITIES["plain"])

    workload = "Job" if SPECS[sample].action == "job" else "Deployment"
    assert taken.count(workload) == 2
    assert taken[-1] == "Pod"


@pytest.mark.parametrize("identity", IDENTITIES)
async def test_apiserver_takes_every_object_when_names_are_odd_or_long(client: Client, identity: str) -> None:
    spec = replace(
        SPECS["everything"],
        profile="profile with spaces",
        service_name="s" * 63,
        volumes=(claim(name="v" * 63), make_volume("config_map", name="c" * 63, mount_path="/c", data={"a": "1"})),
    )
    served = await dry_run_all(client, spec, IDENTITIES[identity])
    job = await dry_run_all(client, replace(spec, action="job"), IDENTITIES[identity])

    kinds = {"Secret", "ConfigMap", "PersistentVolumeClaim", "Pod"}
    assert {*served} == {*kinds, "Deployment", "Service"}
    assert {*job} == {*kinds, "Job"}


@pytest.mark.parametrize("action", ["job", "serve"])
@pytest.mark.parametrize("identity", IDENTITIES)
async def test_apiserver_takes_every_object_when_the_platform_gives_all_it_has(
    client: Client, identity: str, action: str
) -> None:
    spec = make_spec(kind="python", image="python:3.11", action=action, run_as_user=1000, image_pull_secrets=["team"])
    taken = await dry_run_all(client, spec, replace(IDENTITIES[identity], platform=PLATFORM))

    assert {"Secret", "Pod"} <= {*taken}


async def test_apiserver_takes_project_objects_when_they_are_admitted(client: Client) -> None:
    namespace = await make_namespace(client, "restricted")
    here = ProjectIdentity(project="vision", namespace=namespace, installation="prod ü")
    claims = [
        render_kept_claim(here, claim=name, volume_id="0a1b", size=Quantity.parse("1Gi"), storage_class="fast")
        for name in ("vol-0a1b", claim_name(IDENTITIES["longest"], volume="v" * 63))
    ]
    secret = render_registry_secret(here, registries={"ghcr.io": RegistryCredential(user="ada", password="x:ü")})
    admitted = admit_project_objects([*claims, secret], project="vision", installation="prod ü")
    taken = [await dry_run(client, RESOURCES[item.kind], json.loads(item.body), namespace) for item in admitted]

    assert taken == ["PersistentVolumeClaim", "PersistentVolumeClaim", "Secret"]


async def test_apiserver_refuses_the_pod_when_it_is_less_than_the_namespace_enforces(client: Client) -> None:
    namespace = await make_namespace(client, "restricted")
    anchor = render_anchor(SPECS["baseline"], IDENTITIES["plain"])
    with pytest.raises(Forbidden, match="violates PodSecurity"):
        await client.create(PODS, pod_of(anchor), namespace=namespace, dry_run=True)


async def test_kubectl_applies_the_run_when_it_is_printed_as_one_file(control_plane: Cluster, client: Client) -> None:
    namespace = await make_namespace(client, "restricted")
    identity = RunIdentity(run_id="by-kubectl", run_uid="u1", project="vision")
    objects = render_run(SPECS["everything"], identity, secret_values=SECRET_VALUES)
    # A List keeps kubectl from knowing more than the order.
    items = control_plane.kubectl("apply", "-n", namespace, "-f", "-", "-o", "name", stdin=_to_list(objects)).split()
    name = run_name(identity)
    assert items == [
        f"secret/{name}-secrets",
        f"persistentvolumeclaim/{name}.data",
        f"deployment.apps/{name}",
        f"service/{name}",
        "service/svc-vision--main",
    ]
    again = control_plane.kubectl("apply", "-n", namespace, "-f", "-", stdin=_to_list(objects)).splitlines()
    assert [line.rpartition(" ")[2] for line in again] == ["unchanged"] * 5
    await client.delete(DEPLOYMENTS, name, namespace=namespace)


@pytest.mark.parametrize("action", ["job", "serve"])
async def test_anchor_takes_all_that_it_owns_with_it_when_it_is_deleted(client: Client, action: str) -> None:
    namespace = await make_namespace(client, "restricted")
    identity = RunIdentity(run_id=f"owner-flow-{action}", run_uid=action, project="vision", namespace=namespace)
    spec = make_spec(
        action=action,
        secrets=[SecretUse(name="TOKEN")],
        volumes=[
            claim(),
            claim(name="kept", mount_path="/kept", lifetime="keep"),
            make_volume("config_map", name="c", mount_path="/c", data={"a": "1"}),
        ],
        replicas=1,
    )
    anchor = render_anchor(spec, identity)
    resource = RESOURCES[anchor["kind"]]
    created = await client.create(resource, anchor)
    owner = Owner(created["kind"], created["metadata"]["name"], created["metadata"]["uid"])
    dependents = render_dependents(spec, identity, owner=owner, secret_values=SECRET_VALUES)
    (kept,) = render_kept_claims(spec, identity)
    for obj in [kept, *dependents]:
        await client.create(RESOURCES[obj["kind"]], obj)

    selector = f"runyard.io/run={identity.run_id}"
    assert not (await client.list(PODS, namespace=namespace, label_selector=selector)).items
    release = {"suspend": False} if action == "job" else {"replicas": 1}
    with pytest.raises(Invalid):
        await client.patch(resource, owner.name, {"metadata": {"uid": "other"}, "spec": release}, namespace=namespace)
    await client.patch(resource, owner.name, {"metadata": {"uid": owner.uid}, "spec": release}, namespace=namespace)

    async def has_pod() -> bool:
        return bool((await client.list(PODS, namespace=namespace, label_selector=selector)).items)

    await wait_until(has_pod)
    await client.delete(resource, owner.name, namespace=namespace, uid=owner.uid, propagation="Background")

    async def list_left() -> set[tuple[str, str]]:
        left = set()
        for kind in (*RESOURCES.values(), PODS):
            found = await client.list(kind, namespace=namespace, label_selector=selector)
            left |= {(kind.kind, obj["metadata"]["name"]) for obj in found.items}
        return left

    await wait_until(lambda: _equals(list_left, {("PersistentVolumeClaim", claim_name(identity, volume="kept"))}))
    claims = await client.list(
        PERSISTENT_VOLUME_CLAIMS, namespace=namespace, label_selector=f"{selector},runyard.io/volume=kept"
    )
    (left,) = claims.items
    assert "deletionTimestamp" not in left["metadata"]
    assert left["metadata"]["annotations"]["runyard.io/lifetime"] == "keep"


async def test_alias_stays_when_a_newer_run_took_it_and_the_older_is_deleted(client: Client) -> None:
    namespace = await make_namespace(client, "restricted")
    spec = make_spec(action="serve", service_name="main")
    owners = []
    for run_id in ("older", "newer"):
        identity = RunIdentity(run_id=run_id, run_uid=run_id, project="alias", namespace=namespace, function="f")
        created = await client.create(DEPLOYMENTS, render_anchor(spec, identity))
        owners.append(Owner("Deployment", created["metadata"]["name"], created["metadata"]["uid"]))
        for obj in render_dependents(spec, identity, owner=owners[-1], secret_values={}):
            await client.apply(SERVICES, obj, field_manager="runyard", force=True)
    await client.delete(DEPLOYMENTS, owners[0].name, namespace=namespace, propagation="Background")

    async def is_collected() -> bool:
        try:
            await client.get(SERVICES, owners[0].name, namespace=namespace)
        except NotFound:
            return True
        return False

    await wait_until(is_collected)
    alias = await client.get(SERVICES, "svc-alias--f--main", namespace=namespace)
    assert alias["spec"]["selector"]["runyard.io/run-uid"] == "newer"
    assert [owner["uid"] for owner in alias["metadata"]["ownerReferences"]] == [owners[1].uid]
    await client.delete(DEPLOYMENTS, owners[1].name, namespace=namespace, propagation="Background")


async def _equals(read: Any, expected: object) -> bool:
    return bool(await read() == expected)


def _to_list(objects: list[Object]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
