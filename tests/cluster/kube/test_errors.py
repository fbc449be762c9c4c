"""Each refusal that a real apiserver gives arrives as its own type, with what the server said."""

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from runyard.kube.client import Client
from runyard.kube.config import ClusterConfig, load_kubeconfig
from runyard.kube.credentials import StaticCredentials, bearer
from runyard.kube.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    DeadlineExceeded,
    Forbidden,
    Gone,
    Invalid,
    MethodNotAllowed,
    NotFound,
    NotServed,
    ServerError,
    Throttled,
    TooLarge,
    Unauthorized,
    Unavailable,
    Unreachable,
    UnsupportedMediaType,
    Untrusted,
    error_from_status_object,
)
from runyard.kube.resources import CONFIG_MAPS, NAMESPACES, POD_DISRUPTION_BUDGETS, PODS, SECRETS, Resource
from testbed.cluster import Cluster
from testbed.pki import Authority
from tests.cluster.kube.conditions import forget_history, wait_until
from tests.cluster.kube.identities import create_account
from tests.cluster.testbed.manifests import pod


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def with_token(cluster: Cluster, token: str) -> ClusterConfig:
    return dataclasses.replace(load_kubeconfig(cluster.kubeconfig), credentials=StaticCredentials(bearer(token)))


async def test_not_found_when_there_is_no_such_object_or_resource(client: Client, namespace: str) -> None:
    with pytest.raises(NotFound) as caught:
        await client.get(PODS, "absent", namespace=namespace)
    assert caught.value.reason == "NotFound"
    assert caught.value.details == {"name": "absent", "kind": "pods"}
    assert caught.value.is_status
    with pytest.raises(NotServed):
        await client.list(Resource("example.com", "v1", "widgets", "Widget", namespaced=True))


async def test_already_exists_when_the_name_is_taken(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAPS, config_map("a"), namespace=namespace)
    with pytest.raises(AlreadyExists, match='configmaps "a" already exists'):
        await client.create(CONFIG_MAPS, config_map("a"), namespace=namespace)


async def test_conflict_when_the_object_has_changed(client: Client, namespace: str) -> None:
    old = await client.create(CONFIG_MAPS, config_map("a", k="1"), namespace=namespace)
    await client.patch(CONFIG_MAPS, "a", {"data": {"k": "2"}}, namespace=namespace)
    with pytest.raises(Conflict, match="the object has been modified"):
        await client.replace(CONFIG_MAPS, old)
    stale = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "data": {"k": "3"}}
    with pytest.raises(Conflict, match="the object has been modified"):
        await client.patch(CONFIG_MAPS, "a", stale, namespace=namespace)


async def test_conflict_when_a_precondition_fails(client: Client, namespace: str) -> None:
    created = await client.create(CONFIG_MAPS, config_map("a", k="1"), namespace=namespace)
    with pytest.raises(Conflict, match="UID in the precondition"):
        await client.delete(CONFIG_MAPS, "a", namespace=namespace, uid="00000000-0000-0000-0000-000000000000")
    with pytest.raises(Conflict, match="ResourceVersion in the precondition"):
        await client.delete(CONFIG_MAPS, "a", namespace=namespace, resource_version="1")
    other = {**created, "metadata": {**created["metadata"], "uid": "other"}}
    with pytest.raises(Conflict, match="Precondition failed: UID"):
        await client.replace(CONFIG_MAPS, other)
    with pytest.raises(Invalid, match=r"metadata\.uid: .*field is immutable"):
        await client.patch(CONFIG_MAPS, "a", {"metadata": {"uid": "other"}}, namespace=namespace)
    assert await client.get(CONFIG_MAPS, "a", namespace=namespace) == created


async def test_conflict_when_what_is_applied_was_deleted_meanwhile(client: Client, namespace: str) -> None:
    created = await client.apply(CONFIG_MAPS, config_map("a"), namespace=namespace, field_manager="m")
    await client.delete(CONFIG_MAPS, "a", namespace=namespace)
    body = {"metadata": {"name": "a", "uid": created["metadata"]["uid"]}}
    with pytest.raises(Conflict, match="uid mismatch"):
        await client.apply(CONFIG_MAPS, body, namespace=namespace, field_manager="m")


async def test_conflict_names_field_and_manager_when_another_one_applies(client: Client, namespace: str) -> None:
    await client.apply(CONFIG_MAPS, config_map("a", k="1"), namespace=namespace, field_manager="first")
    with pytest.raises(Conflict) as caught:
        await client.apply(CONFIG_MAPS, config_map("a", k="2"), namespace=namespace, field_manager="second")
    [cause] = caught.value.causes
    assert cause.reason == "FieldManagerConflict"
    assert cause.field == ".data.k"
    assert cause.message == 'conflict with "first"'


async def test_invalid_names_each_field_when_an_object_is_wrong(client: Client, namespace: str) -> None:
    body = {
        "metadata": {"name": "p"},
        "spec": {"restartPolicy": "Sometimes", "containers": [{"name": "Main", "image": ""}]},
    }
    with pytest.raises(Invalid) as caught:
        await client.create(PODS, body, namespace=namespace)
    assert {cause.field: cause.reason for cause in caught.value.causes} == {
        "spec.restartPolicy": "FieldValueNotSupported",
        "spec.containers[0].name": "FieldValueInvalid",
        "spec.containers[0].image": "FieldValueRequired",
    }
    assert all(cause.message for cause in caught.value.causes)


async def test_unknown_field_is_refused_when_it_is_created_or_applied(client: Client, namespace: str) -> None:
    body = {**config_map("a"), "dta": {}}
    with pytest.raises(BadRequest, match='unknown field "dta"'):
        await client.create(CONFIG_MAPS, body, namespace=namespace)
    with pytest.raises(BadRequest, match=r"\.dta: field not declared in schema"):
        await client.apply(CONFIG_MAPS, body, namespace=namespace, field_manager="me")


async def test_unknown_field_is_refused_when_it_is_patched_in(client: Client, namespace: str) -> None:
    secret = {"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}}
    await client.create(SECRETS, secret, namespace=namespace)
    for kind in ("merge", "strategic"):
        with pytest.raises((Invalid, BadRequest), match='unknown field "dta"') as caught:
            await client.patch(SECRETS, "s", {"dta": {}}, namespace=namespace, kind=kind)
        assert "aHVudGVyMg" not in repr(vars(caught.value))
    patch = [{"op": "add", "path": "/dta", "value": 1}]
    with pytest.raises(Invalid, match='unknown field "dta"'):
        await client.patch(SECRETS, "s", patch, namespace=namespace, kind="json")


async def test_bad_request_when_the_body_is_malformed(client: Client, namespace: str) -> None:
    with pytest.raises(BadRequest):
        await client.transport.request("POST", CONFIG_MAPS.path(namespace=namespace), body=b"{not json")
    with pytest.raises(BadRequest, match="continue"):
        await client.transport.request("GET", CONFIG_MAPS.path(), params={"limit": "1", "continue": "!"})


async def test_invalid_when_a_json_patch_tests_in_vain(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAPS, config_map("a", k="1"), namespace=namespace)
    patch = [{"op": "test", "path": "/data/k", "value": "2"}]
    with pytest.raises(Invalid):
        await client.patch(CONFIG_MAPS, "a", patch, namespace=namespace, kind="json")


async def test_forbidden_when_an_account_has_no_rights(client: Client, cluster: Cluster, namespace: str) -> None:
    token = await create_account(client, "nobody", namespace=namespace)
    async with Client.connect(with_token(cluster, token)) as nobody:
        with pytest.raises(Forbidden, match=f"system:serviceaccount:{namespace}:nobody") as caught:
            await nobody.list(PODS, namespace=namespace)
        assert caught.value.details["kind"] == "pods"


async def test_forbidden_when_the_namespace_is_being_deleted(client: Client, namespace: str) -> None:
    held = {"metadata": {"name": "held", "finalizers": ["runyard.example/test"]}}
    await client.create(CONFIG_MAPS, held, namespace=namespace)
    await client.delete(NAMESPACES, namespace)
    try:
        with pytest.raises(Forbidden) as caught:
            await client.create(CONFIG_MAPS, config_map("late"), namespace=namespace)
        assert [cause.reason for cause in caught.value.causes] == ["NamespaceTerminating"]
    finally:
        await client.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, namespace=namespace)


async def test_unauthorized_when_the_token_is_unknown(cluster: Cluster) -> None:
    async with Client.connect(with_token(cluster, "sesame")) as stranger:
        with pytest.raises(Unauthorized) as caught:
            await stranger.list(PODS)
    assert "sesame" not in str(caught.value)


async def test_untrusted_when_the_authority_is_another_one(cluster: Cluster, tmp_path: Path) -> None:
    other = Authority(tmp_path).certificate_file.read_bytes()
    config = dataclasses.replace(load_kubeconfig(cluster.kubeconfig), ca=other)
    async with Client.connect(config) as client:
        with pytest.raises(Untrusted, match="certificate"):
            await client.list(PODS)


async def test_method_is_not_allowed_when_the_resource_lacks_the_verb(client: Client, namespace: str) -> None:
    with pytest.raises(MethodNotAllowed):
        await client.transport.request("POST", CONFIG_MAPS.path(namespace=namespace, name="a"), body=b"{}")
    component_statuses = Resource("", "v1", "componentstatuses", "ComponentStatus", namespaced=False)
    with pytest.raises(MethodNotAllowed):
        await client.create(component_statuses, {"metadata": {"name": "a"}})


async def test_media_type_is_unsupported_when_a_patch_has_none_of_the_known(client: Client, namespace: str) -> None:
    path = CONFIG_MAPS.path(namespace=namespace, name="a")
    with pytest.raises(UnsupportedMediaType):
        await client.transport.request("PATCH", path, body=b"{}", content_type="text/plain")


async def test_too_large_when_a_body_exceeds_the_limit(client: Client, namespace: str) -> None:
    with pytest.raises(TooLarge, match="limit is 3145728"):
        await client.create(CONFIG_MAPS, config_map("a", k="x" * (4 << 20)), namespace=namespace)


async def test_throttled_when_a_disruption_budget_holds_a_pod(client: Client, namespace: str) -> None:
    body = pod("held", "sleep 600")
    body["metadata"]["labels"] = {"app": "held"}
    budget = {
        "metadata": {"name": "budget"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "held"}}},
    }
    await client.create(POD_DISRUPTION_BUDGETS, budget, namespace=namespace)
    await client.create(PODS, body, namespace=namespace)
    # Before its controller has counted the pod, the budget lets an eviction pass.
    await wait_until(lambda: is_guarded(client, namespace))
    with pytest.raises(Throttled, match="disruption budget") as caught:
        await client.evict("held", namespace=namespace)
    [cause] = caught.value.causes
    assert cause.reason == "DisruptionBudget"
    assert "budget needs 1 healthy pods" in cause.message


async def is_guarded(client: Client, namespace: str) -> bool:
    budget = await client.get(POD_DISRUPTION_BUDGETS, "budget", namespace=namespace)
    return bool(budget.get("status", {}).get("currentHealthy") == 1)


async def test_deadline_exceeded_when_it_is_short(client: Client) -> None:
    with pytest.raises(DeadlineExceeded):
        await client.list(NAMESPACES, deadline_seconds=0.0001)


async def test_gone_when_the_moment_of_a_list_is_forgotten(plane_client: Client, control_plane: Cluster) -> None:
    for name in ("a", "b", "c"):
        await plane_client.create(CONFIG_MAPS, config_map(name), namespace="default")
    first = await anext(plane_client.iter_pages(CONFIG_MAPS, namespace="default", page_size=1))
    await forget_history(plane_client, control_plane)
    params = {"limit": "1", "continue": first.continue_token}
    with pytest.raises(Gone) as caught:
        await plane_client.transport.request("GET", CONFIG_MAPS.path(namespace="default"), params=params)
    assert caught.value.reason == "Expired"


async def test_gone_when_a_watch_begins_before_what_is_remembered(plane_client: Client, control_plane: Cluster) -> None:
    await forget_history(plane_client, control_plane)
    params = {"watch": "true", "resourceVersion": "1", "timeoutSeconds": "30"}
    async with plane_client.transport.stream(CONFIG_MAPS.path(), params=params) as chunks:
        line = await anext(chunks)
    event = json.loads(line)
    assert event["type"] == "ERROR"
    error = error_from_status_object(event["object"])
    assert isinstance(error, Gone)
    assert error.reason == "Expired"


async def test_unavailable_when_etcd_is_down(plane_client: Client, control_plane: Cluster) -> None:
    control_plane.kill("etcd")
    try:
        path = NAMESPACES.path(name="default")
        with pytest.raises(Unavailable) as caught:
            await plane_client.transport.request("GET", path, params={"timeout": "3s"})
        # The server answers, or resets where its own deadline and etcd's strike at the same moment.
        assert (caught.value.status, caught.value.reason) in ((504, "Timeout"), (None, ""))
        with pytest.raises(DeadlineExceeded):
            await plane_client.get(NAMESPACES, "default", deadline_seconds=1)
        with pytest.raises(ServerError) as unready:
            await plane_client.transport.request("GET", "/readyz")
        assert unready.value.status == 500
        assert "etcd failed" in str(unready.value)
    finally:
        control_plane.start("etcd")
        await asyncio.to_thread(control_plane.wait_ready)
    await plane_client.get(NAMESPACES, "default")


async def test_unreachable_when_the_apiserver_is_dead(plane_client: Client, control_plane: Cluster) -> None:
    await plane_client.get(NAMESPACES, "default")
    control_plane.kill("kube-apiserver")
    try:
        async with Client.connect(load_kubeconfig(control_plane.kubeconfig)) as newcomer:
            with pytest.raises(Unreachable) as caught:
                await newcomer.transport.request("GET", NAMESPACES.path(name="default"))
        assert isinstance(caught.value.__cause__, OSError)
        # The kept connection of the other client was cut; that is repeated until the deadline.
        with pytest.raises(Unavailable):
            await plane_client.get(NAMESPACES, "default", deadline_seconds=2)
    finally:
        control_plane.start("kube-apiserver")
    # The same client, without being told, as soon as there is a server again.
    await plane_client.get(NAMESPACES, "default", deadline_seconds=120)
