"""How a deleted pod ended is known to subscribers, also when nobody looked at it in time."""

import asyncio

from runyard.kube.client import Client
from runyard.kube.reflector import Reflector
from runyard.kube.resources import PODS
from runyard.kube.store import Tombstone
from runyard.kube.subscription import Subscription
from runyard.kube.views import Key
from tests.cluster.testbed.manifests import pod

Pod = dict[str, object]


async def await_tombstone(changes: "Subscription[Pod]", key: Key) -> "Tombstone[Pod]":
    async with asyncio.timeout(90):
        async for batch in changes:
            if key in batch and changes.deleted(key):
                [tombstone] = changes.deleted(key)
                return tombstone
    raise AssertionError("the subscription ended")


async def test_exit_code_is_in_the_final_state_when_a_pod_was_deleted(client: Client, namespace: str) -> None:
    async with Reflector(client, PODS, namespace=namespace) as reflector:
        await reflector.wait_synced()
        changes = reflector.subscribe()
        await client.create(PODS, pod("p", "trap 'exit 7' TERM; sleep 600 & wait"), namespace=namespace)
        async with asyncio.timeout(90):
            async for _ in changes:
                found = reflector.store.find((namespace, "p"))
                if found is not None and found["status"].get("phase") == "Running":
                    break
        await client.delete(PODS, "p", namespace=namespace, grace_period_seconds=10)
        tombstone = await await_tombstone(changes, Key(namespace, "p"))
        assert reflector.store.find((namespace, "p")) is None
        assert tombstone.is_final
        status = tombstone.view["status"]
        assert isinstance(status, dict)
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7
