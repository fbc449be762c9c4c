"""Drain and leave: take the node out of its cluster without losing what runs on it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from runyard.kube import Client, KubeError, NotFound, Object, Throttled
from runyard.kube.resources import LEASES, MUTATING_WEBHOOK_CONFIGURATIONS, NODES, PODS, RUNTIME_CLASSES, SERVICES
from runyard.node.offer import CLASS_LABEL
from runyard.node.services.service_settings import ServiceSettings
from runyard.node.virtual_node import ELECTION_PREFIX, LEASE_NAMESPACE

POLL_SECONDS = 2.0
_ENDED = frozenset({"Succeeded", "Failed"})

Say = Callable[[str], None]


class CannotLeave(Exception):
    """Something is in the way; the text says what, and what to do."""


async def drain(client: Client, node: str, *, seconds: float, say: Say) -> None:
    """Cordon the node, evict its pods, and wait until they are gone. Disruption budgets are obeyed."""
    try:
        await client.patch(NODES, node, {"spec": {"unschedulable": True}})
    except NotFound:
        raise CannotLeave(f"there is no node {node}") from None
    say(f"node {node} takes no new pods")
    told: set[str] = set()
    try:
        async with asyncio.timeout(seconds):
            while pods := await list_pods(client, node):
                await _end(client, [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")], told, say)
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        left = ", ".join(sorted(_name(pod) for pod in await list_pods(client, node)))
        raise CannotLeave(f"after {seconds:g} s these pods are still there: {left}") from None
    say(f"node {node} is empty")


async def leave(client: Client, node: str, *, namespace: str, is_forced: bool, say: Say) -> None:
    """Delete the node, its Leases and its RuntimeClasses. Agents that still run would bring it back.

    Services that an agent holds are let go only if it is forced: nobody is left who removes their routes.
    """
    held = await _list_held_services(client, node)
    if not is_forced:
        await _check_stopped(client, node, namespace)
        if held:
            names = ", ".join(sorted(map(_name, held)))
            raise CannotLeave(
                f"these Services have routes at the provider: {names}; delete them while an agent runs, which removes "
                "the routes, or use --force, which leaves them behind"
            )
        if pods := await list_pods(client, node):
            names = ", ".join(sorted(map(_name, pods)))
            raise CannotLeave(f"pods are on node {node}: {names}; run `runyard node drain` first, or use --force")
    for service in held:
        await _let_go(client, node, service)
        say(f"service {_name(service)} let go; its route stays at the provider")
    selector = f"{CLASS_LABEL}={node}"
    for item in (await client.list(RUNTIME_CLASSES, label_selector=selector)).items:
        await client.delete(RUNTIME_CLASSES, item["metadata"]["name"], uid=item["metadata"]["uid"])
        say(f"runtimeclass {item['metadata']['name']} deleted")
    for resource, name, where in (
        (LEASES, node, LEASE_NAMESPACE),
        (LEASES, f"{ELECTION_PREFIX}{node}", namespace),
        (MUTATING_WEBHOOK_CONFIGURATIONS, f"{node}-filling", None),
        (NODES, node, None),
    ):
        try:
            await client.delete(resource, name, namespace=where)
        except NotFound:
            continue
        say(f"{resource.kind.lower()} {name} deleted")


async def list_pods(client: Client, node: str) -> list[Object]:
    """The pods that are bound to the node, also those that have ended: copies of their Secrets are at the provider."""
    return (await client.list(PODS, field_selector=f"spec.nodeName={node}")).items


async def _check_stopped(client: Client, node: str, namespace: str) -> None:
    """Nobody may hold the lease of the agents' election."""
    try:
        lease = await client.get(LEASES, f"{ELECTION_PREFIX}{node}", namespace=namespace)
    except NotFound:
        return
    before = lease["metadata"]["resourceVersion"]
    holder = (lease.get("spec") or {}).get("holderIdentity")
    if not holder:
        return
    await asyncio.sleep(3 * POLL_SECONDS)
    lease = await client.get(LEASES, f"{ELECTION_PREFIX}{node}", namespace=namespace)
    if lease["metadata"]["resourceVersion"] != before:
        raise CannotLeave(
            f"an agent of node {node} runs ({holder}) and would bring the node back: stop it first, for instance by "
            "`kubectl scale deployment runyard-node --replicas=0`, or use --force"
        )


async def _list_held_services(client: Client, node: str) -> list[Object]:
    finalizer = ServiceSettings(node=node).finalizer
    services = (await client.list(SERVICES)).items
    return [service for service in services if finalizer in service["metadata"].get("finalizers", ())]


async def _let_go(client: Client, node: str, service: Object) -> None:
    """Take the address and then the finalizer away: a Service that is being deleted is gone then."""
    metadata, finalizer = service["metadata"], ServiceSettings(node=node).finalizer
    namespace = metadata["namespace"]
    with suppress(NotFound):
        freed = {"metadata": {"uid": metadata["uid"]}, "status": {"loadBalancer": None}}
        await client.patch(SERVICES, metadata["name"], freed, namespace=namespace, subresource="status")
        others = [name for name in metadata["finalizers"] if name != finalizer]
        changed = {"metadata": {"uid": metadata["uid"], "finalizers": others}}
        await client.patch(SERVICES, metadata["name"], changed, namespace=namespace)


async def _end(client: Client, pods: list[Object], told: set[str], say: Say) -> None:
    """Evict pods, and delete those that have ended."""
    for pod in pods:
        metadata = pod["metadata"]
        try:
            if (pod.get("status") or {}).get("phase") in _ENDED:
                await client.delete(PODS, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"])
                continue
            await client.evict(metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"])
        except Throttled as error:
            if metadata["uid"] not in told:
                say(f"{_name(pod)} waits: {error}")
        except NotFound:
            continue
        except KubeError as error:
            say(f"{_name(pod)}: {error}")
        else:
            say(f"{_name(pod)} is evicted")
        told.add(metadata["uid"])


def _name(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
