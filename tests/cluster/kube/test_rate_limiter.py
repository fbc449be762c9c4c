"""The priority token bucket on a real apiserver, with its own API Priority and Fairness."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runyard.kube.client import Client
from runyard.kube.config import load_kubeconfig
from runyard.kube.errors import Forbidden, Throttled
from runyard.kube.rate_limiter import RateLimit
from runyard.kube.reflector import Reflector
from runyard.kube.resources import CONFIG_MAPS, SERVICE_ACCOUNTS, Resource
from testbed.cluster import Cluster
from tests.cluster.kube.conditions import wait_until
from tests.cluster.kube.identities import config_of, create_account

FLOW_SCHEMAS = Resource("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", namespaced=False)
PRIORITY_LEVELS = Resource(
    "flowcontrol.apiserver.k8s.io",
    "v1",
    "prioritylevelconfigurations",
    "PriorityLevelConfiguration",
    namespaced=False,
)


async def test_a_stop_goes_before_waiting_creations_when_the_bucket_is_empty(cluster: Cluster, namespace: str) -> None:
    limit = RateLimit(requests_per_second=8, burst=2)
    order: list[str] = []
    async with Client.connect(load_kubeconfig(cluster.kubeconfig), rate_limit=limit) as client:
        await client.create(CONFIG_MAPS, {"metadata": {"name": "old"}}, namespace=namespace)
        async with Reflector(client, CONFIG_MAPS, namespace=namespace) as reflector:
            await reflector.wait_synced()

            async def create(name: str) -> None:
                await client.create(CONFIG_MAPS, {"metadata": {"name": name}}, namespace=namespace)
                order.append(name)

            async def delete() -> None:
                await client.delete(CONFIG_MAPS, "old", namespace=namespace)
                order.append("deleted")

            limiter = client.transport.limiter
            async with asyncio.TaskGroup() as group:
                for number in range(40):
                    group.create_task(create(f"new-{number}"))
                while limiter.waiting < 30:  # noqa: ASYNC110 - as soon as the tasks have had their first turn
                    await asyncio.sleep(0)
                group.create_task(delete())
            # In turn it would be the last, or nearly so; some creations are answered while it is under way.
            assert order.index("deleted") < 30
            assert len(order) == 41
            # The watch is open all the time and holds no slot.
            assert (limiter.in_flight, limiter.waiting, reflector.last_error) == (0, 0, None)


@pytest.fixture
async def starved(control_plane: Cluster, plane_client: Client, tmp_path: Path) -> AsyncIterator[Client]:
    """A service account that the apiserver gives one seat and no queue, behind a limiter of its own."""
    token = await create_account(plane_client, "starved", namespace="default")
    level = {"type": "Limited", "limited": {"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}}}
    level["limited"]["borrowingLimitPercent"] = 0  # type: ignore[index]
    subject = {"kind": "ServiceAccount", "serviceAccount": {"name": "starved", "namespace": "default"}}
    rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
    schema = {
        "priorityLevelConfiguration": {"name": "starved"},
        "matchingPrecedence": 2,
        "rules": [{"subjects": [subject], "resourceRules": [rule]}],
    }
    await plane_client.create(PRIORITY_LEVELS, {"metadata": {"name": "starved"}, "spec": level})
    await plane_client.create(FLOW_SCHEMAS, {"metadata": {"name": "starved"}, "spec": schema})
    config = config_of(control_plane, {"token": token}, folder=tmp_path)
    async with Client.connect(config, rate_limit=RateLimit(most_in_flight=64)) as client:
        yield client


async def test_the_server_s_retry_after_is_obeyed_when_it_throttles(starved: Client) -> None:
    # The account has no rights: what is processed is refused with 403, what is not with 429.
    throttled: list[Throttled] = []

    async def ask() -> None:
        try:
            await starved.transport.request("GET", SERVICE_ACCOUNTS.path(namespace="default"))
        except Throttled as error:
            throttled.append(error)
        except Forbidden:
            pass

    async def is_throttled() -> bool:
        await asyncio.gather(*(ask() for _ in range(200)))
        return bool(throttled)

    async def is_obeyed() -> bool:
        """Whether a read still waits to be sent when a deletion, asked for after it, is answered."""
        throttled.clear()
        await wait_until(is_throttled, seconds=60)
        reading = asyncio.create_task(starved.get(CONFIG_MAPS, "a", namespace="default"))
        await asyncio.sleep(0)
        with pytest.raises(Forbidden):
            await starved.delete(CONFIG_MAPS, "a", namespace="default")
        waiting = starved.transport.limiter.waiting
        with pytest.raises(Forbidden):
            await reading
        return waiting == 1

    await wait_until(is_throttled, seconds=60)
    assert {error.retry_after_seconds for error in throttled} == {1.0}
    # On a busy machine the second is over before the deletion is answered.
    await wait_until(is_obeyed, seconds=120)
