"""Namespaces that are watched one by one, by an account that may not list all of them."""

import asyncio
import secrets
from pathlib import Path

from runyard.kube.client import Client
from runyard.kube.errors import Forbidden
from runyard.kube.reflector import Reflector, Timing
from runyard.kube.reflector_group import ReflectorGroup
from runyard.kube.resources import CONFIG_MAPS, NAMESPACES, ROLE_BINDINGS, ROLES
from runyard.kube.views import Key
from testbed.cluster import Cluster
from tests.cluster.kube.identities import config_of, create_account

LABEL = {"runyard.test/installation": "mine"}
SELECTOR = "runyard.test/installation=mine"
PROMPT = Timing(backoff_seconds=(0.1, 1.0), denied_backoff_seconds=(0.2, 1.0))


async def make_namespace(client: Client) -> str:
    name = f"group-{secrets.token_hex(4)}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    return name


async def allow(client: Client, namespace: str, *, account: str, of: str) -> None:
    """Let a service account read and write ConfigMaps of one namespace."""
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "delete"]}
    await client.create(ROLES, {"metadata": {"name": "r"}, "rules": [rule]}, namespace=namespace)
    binding = {
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": of}],
    }
    await client.create(ROLE_BINDINGS, binding, namespace=namespace)


async def test_namespaces_are_followed_when_rights_are_given_one_by_one(
    control_plane: Cluster, plane_client: Client, tmp_path: Path
) -> None:
    first, second = await make_namespace(plane_client), await make_namespace(plane_client)
    token = await create_account(plane_client, "engine", namespace=first)
    await allow(plane_client, first, account="engine", of=first)
    config = config_of(control_plane, {"token": token}, folder=tmp_path)
    async with (
        Client.connect(config) as client,
        ReflectorGroup(client, CONFIG_MAPS, label_selector=SELECTOR, timing=PROMPT) as group,
        asyncio.timeout(60),
    ):
        changes = group.subscribe()
        group.add(first)
        group.add(second)
        await group.wait_synced(first)
        while not group.last_errors:  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.05)
        assert {name: type(error) for name, error in group.last_errors.items()} == {second: Forbidden}

        await client.create(CONFIG_MAPS, {"metadata": {"name": "a", "labels": LABEL}}, namespace=first)
        await plane_client.create(CONFIG_MAPS, {"metadata": {"name": "other"}}, namespace=first)
        assert await anext(changes) == [Key(first, "a")]

        await allow(plane_client, second, account="engine", of=first)
        await group.wait_synced(second)
        await client.create(CONFIG_MAPS, {"metadata": {"name": "b", "labels": LABEL}}, namespace=second)
        assert await anext(changes) == [Key(second, "b")]
        assert set(group.store) == {Key(first, "a"), Key(second, "b")}

        await client.delete(CONFIG_MAPS, "b", namespace=second)
        assert await anext(changes) == [Key(second, "b")]
        assert [each.is_final for each in changes.deleted(Key(second, "b"))] == [True]
        await group.remove(first)
        assert await anext(changes) == [Key(first, "a")]
        assert len(group.store) == 0


async def test_all_namespaces_are_followed_by_one_watch_when_it_may_list_them(plane_client: Client) -> None:
    first, second = await make_namespace(plane_client), await make_namespace(plane_client)
    selector = f"runyard.test/installation={first}"
    labels = {"runyard.test/installation": first}
    async with Reflector(plane_client, CONFIG_MAPS, label_selector=selector) as reflector, asyncio.timeout(60):
        await reflector.wait_synced()
        changes = reflector.subscribe()
        for namespace in (first, second):
            body = {"metadata": {"name": "a", "labels": labels}}
            await plane_client.create(CONFIG_MAPS, body, namespace=namespace)
            assert await anext(changes) == [Key(namespace, "a")]
        # An object that loses the label is gone for this installation, and its last state is known.
        await plane_client.patch(CONFIG_MAPS, "a", {"metadata": {"labels": None}}, namespace=second)
        assert await anext(changes) == [Key(second, "a")]
        assert [each.is_final for each in changes.deleted(Key(second, "a"))] == [True]
