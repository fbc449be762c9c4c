"""What a real apiserver answers, and what becomes of the run then: tried again, or refused."""

import dataclasses
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from runyard.app.engine import EngineError, EngineFull, EngineRefusal, EngineUnavailable
from runyard.domain.reasons import Reason
from runyard.engines.kubernetes.kube_errors import engine_errors
from runyard.kube import Client, Forbidden, load_kubeconfig
from runyard.kube.credentials import StaticCredentials, bearer
from runyard.kube.resources import (
    CONFIG_MAPS,
    LIMIT_RANGES,
    PERSISTENT_VOLUME_CLAIMS,
    RESOURCE_QUOTAS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from testbed.cluster import Cluster
from tests.cluster.kube.conditions import wait_until
from tests.cluster.kube.identities import create_account


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def claim(size: str) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": "c"}, "spec": spec}


async def translate(call: Awaitable[object]) -> EngineError:
    """The error of the port that a call ends with."""
    with pytest.raises(EngineError) as caught, engine_errors("try it"):
        await call
    return caught.value


@asynccontextmanager
async def enforce(client: Client, name: str, namespace: str, **fields: Any) -> AsyncIterator[None]:
    """An admission policy over the ConfigMaps of a namespace, once it holds."""
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]
    spec = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": rules}, **fields}
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    binding: dict[str, Any] = {"policyName": name, "validationActions": ["Deny"], "matchResources": selector}
    if "paramKind" in fields:
        binding["paramRef"] = {"name": "absent", "namespace": namespace, "parameterNotFoundAction": "Deny"}
    await client.create(VALIDATING_ADMISSION_POLICIES, {"metadata": {"name": name}, "spec": spec})
    try:
        await client.create(VALIDATING_ADMISSION_POLICY_BINDINGS, {"metadata": {"name": name}, "spec": binding})
        yield
    finally:
        await client.delete(VALIDATING_ADMISSION_POLICIES, name)
        await client.delete(VALIDATING_ADMISSION_POLICY_BINDINGS, name)


async def find_refusal(client: Client, namespace: str) -> EngineError:
    """What creating a ConfigMap ends with, once the policy is enforced."""
    errors: list[EngineError] = []

    async def is_refused() -> bool:
        try:
            with engine_errors("create it"):
                await client.create(CONFIG_MAPS, config_map("a"), namespace=namespace, dry_run=True)
        except EngineError as error:
            errors.append(error)
        return bool(errors)

    await wait_until(is_refused)
    return errors[0]


@pytest.mark.parametrize("reason", ["Forbidden", "Invalid", "RequestEntityTooLarge"])
async def test_run_is_refused_when_an_admission_policy_denies(client: Client, namespace: str, reason: str) -> None:
    validations = [{"expression": "false", "message": "not on a Friday", "reason": reason}]
    async with enforce(client, f"{namespace}-{reason.lower()}", namespace, validations=validations):
        error = await find_refusal(client, namespace)
    assert type(error) is EngineRefusal
    assert error.code == Reason.ADMISSION_REFUSED
    assert "not on a Friday" in str(error)


async def test_run_waits_when_an_admission_policy_lacks_its_parameters(client: Client, namespace: str) -> None:
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    validations = [{"expression": "params.data.x == 'y'"}]
    async with enforce(client, f"{namespace}-params", namespace, paramKind=kind, validations=validations):
        error = await find_refusal(client, namespace)
    assert type(error) is EngineUnavailable
    assert "failed to configure" in str(error)


async def test_run_is_refused_when_an_object_is_invalid_or_breaks_a_limit_range(client: Client, namespace: str) -> None:
    limits = [{"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]
    await client.create(LIMIT_RANGES, {"metadata": {"name": "l"}, "spec": {"limits": limits}}, namespace=namespace)

    async def is_enforced() -> bool:
        try:
            await client.create(PERSISTENT_VOLUME_CLAIMS, claim("2Gi"), namespace=namespace, dry_run=True)
        except Forbidden:
            return True
        return False

    await wait_until(is_enforced)
    calls = [
        client.create(PERSISTENT_VOLUME_CLAIMS, claim("2Gi"), namespace=namespace),
        client.create(CONFIG_MAPS, {**config_map("a"), "dta": {}}, namespace=namespace),
        client.create(CONFIG_MAPS, config_map("A B"), namespace=namespace),
        client.create(CONFIG_MAPS, config_map("a", x="x" * 4_000_000), namespace=namespace),
    ]
    errors = [await translate(call) for call in calls]
    assert [type(error) for error in errors] == [EngineRefusal] * 4, errors
    assert "maximum storage usage" in str(errors[0])


async def test_run_waits_when_the_quota_is_full_a_right_is_missing_or_an_object_has_changed(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    token = await create_account(client, "nobody", namespace=namespace)
    config = dataclasses.replace(load_kubeconfig(cluster.kubeconfig), credentials=StaticCredentials(bearer(token)))
    async with Client.connect(config) as stranger:
        error = await translate(stranger.create(CONFIG_MAPS, config_map("b"), namespace=namespace))
    assert (type(error), error.code) == (EngineUnavailable, Reason.KUBE_PERMISSIONS)

    await client.create(CONFIG_MAPS, config_map("a"), namespace=namespace)
    test = [{"op": "test", "path": "/metadata/uid", "value": "another"}]
    error = await translate(client.patch(CONFIG_MAPS, "a", test, namespace=namespace, kind="json"))
    assert (type(error), error.code) == (EngineUnavailable, Reason.ENGINE_FAILED)

    hard = {"persistentvolumeclaims": "0"}
    await client.create(RESOURCE_QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}}, namespace=namespace)

    async def counts() -> bool:
        return "hard" in (await client.get(RESOURCE_QUOTAS, "q", namespace=namespace)).get("status", {})

    await wait_until(counts)
    error = await translate(client.create(PERSISTENT_VOLUME_CLAIMS, claim("1Gi"), namespace=namespace))
    assert (type(error), error.code) == (EngineFull, Reason.QUOTA_EXCEEDED)
    assert str(error).startswith("the resource quota q has no room (persistentvolumeclaims: 1 requested, 0 of 0 used)")
