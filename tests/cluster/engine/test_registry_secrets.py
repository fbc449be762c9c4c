"""The Secret with a project's registry credentials on a real cluster: written, replaced, deleted."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from runyard.app.engine import EngineRefusal, ReadRegistries
from runyard.engines.kubernetes import registry_secrets
from runyard.engines.kubernetes.cluster_writes import ClusterWrites
from runyard.engines.kubernetes.namespaces import Namespaces
from runyard.engines.kubernetes.registry_secrets import RegistrySecrets
from runyard.kube import Client, NotFound
from runyard.kube.resources import SECRETS
from runyard.manifests.names import registry_secret_name
from runyard.spec.registries import RegistryCredential

NAME = registry_secret_name("vision")
ADA = RegistryCredential(user="ada", password="first")


def make(client: Client, namespace: str, installation: str = "i1") -> RegistrySecrets:
    writes = ClusterWrites(client, request_seconds=20.0)
    return RegistrySecrets(client, writes, Namespaces(namespace, installation), installation=installation)


async def read(client: Client, namespace: str, name: str = NAME) -> tuple[Any, str] | None:
    """The logins, and the version of the Secret."""
    try:
        found = await client.get(SECRETS, name, namespace=namespace)
    except NotFound:
        return None
    assert found["type"] == "kubernetes.io/dockerconfigjson"
    config = json.loads(base64.b64decode(found["data"][".dockerconfigjson"]))
    logins = {host: (login["username"], login["password"]) for host, login in config["auths"].items()}
    return logins, found["metadata"]["resourceVersion"]


def reading(registries: Mapping[str, RegistryCredential]) -> ReadRegistries:
    """A project that has these credentials."""

    async def read() -> Mapping[str, RegistryCredential]:
        return registries

    return read


async def test_secret_is_in_step_when_credentials_come_change_and_go(client: Client, namespace: str) -> None:
    secrets = make(client, namespace)
    await secrets.ensure("vision", reading({}))
    assert await read(client, namespace) is None
    await secrets.ensure("vision", reading({"r.example": ADA}))
    first = await read(client, namespace)
    assert first is not None
    assert first[0] == {"r.example": ("ada", "first")}
    await secrets.ensure("vision", reading({"r.example": ADA}))
    assert await read(client, namespace) == first, "nothing is sent again"
    # Another process finds what is there.
    changed = {"r.example": RegistryCredential(user="ada", password="second")}
    await make(client, namespace).ensure("vision", reading(changed))
    second = await read(client, namespace)
    assert second is not None
    assert second[0] == {"r.example": ("ada", "second")}
    # Whatever this process remembers: what was changed is sent.
    await secrets.ensure("vision", reading({"r.example": ADA}), is_certain=True)
    third = await read(client, namespace)
    assert third is not None
    assert third[0] == {"r.example": ("ada", "first")}
    await make(client, namespace).ensure("vision", reading({}))
    assert await read(client, namespace) is None
    await secrets.remove("vision")


@pytest.mark.parametrize("project", ["demo-", "-demo"])
async def test_secret_is_in_step_when_its_project_cannot_be_a_label(
    client: Client, namespace: str, project: str
) -> None:
    name = registry_secret_name(project)
    await make(client, namespace).ensure(project, reading({"r.example": ADA}))
    changed = {"r.example": RegistryCredential(user="ada", password="second")}
    await make(client, namespace).ensure(project, reading(changed))
    found = await read(client, namespace, name)
    assert found is not None
    assert found[0] == {"r.example": ("ada", "second")}
    await make(client, namespace).remove(project)
    assert await read(client, namespace, name) is None


async def test_secret_is_written_when_its_project_was_removed_and_created_again(client: Client, namespace: str) -> None:
    secrets = make(client, namespace)
    await secrets.ensure("vision", reading({"r.example": ADA}))
    await secrets.remove("vision")
    await secrets.ensure("vision", reading({"r.example": ADA}))
    assert await read(client, namespace) is not None


async def test_newest_credentials_stay_when_they_change_during_a_write(client: Client, namespace: str) -> None:
    secrets = make(client, namespace)
    newer = {"r.example": RegistryCredential(user="ada", password="second")}
    answers = [{"r.example": ADA}, newer, newer]

    async def read_changing() -> Mapping[str, RegistryCredential]:
        return answers.pop(0)

    await secrets.ensure("vision", read_changing)
    found = await read(client, namespace)
    assert found is not None
    assert found[0] == {"r.example": ("ada", "second")}
    assert answers == []


async def test_secret_is_written_again_when_somebody_deleted_it(
    client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = make(client, namespace)
    await secrets.ensure("vision", reading({"r.example": ADA}))
    await client.delete(SECRETS, NAME, namespace=namespace)
    monkeypatch.setattr(registry_secrets, "FRESH_SECONDS", 0.0)
    await secrets.ensure("vision", reading({"r.example": ADA}))
    assert await read(client, namespace) is not None
    await secrets.remove("vision")
    assert await read(client, namespace) is None


async def test_secret_is_left_alone_when_it_is_of_another_installation(client: Client, namespace: str) -> None:
    await make(client, namespace, "other").ensure("vision", reading({"r.example": ADA}))
    theirs = await read(client, namespace)
    with pytest.raises(EngineRefusal) as refused:
        await make(client, namespace).ensure("vision", reading({"s.example": ADA}))
    assert refused.value.code == "registries.taken"
    await make(client, namespace).ensure("vision", reading({}))
    await make(client, namespace).remove("vision")
    assert await read(client, namespace) == theirs
