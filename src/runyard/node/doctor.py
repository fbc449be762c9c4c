"""`runyard node doctor`: looks at both sides, and says what is missing and how to mend it. Changes nothing."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from runyard.kube import Client, Forbidden, KubeError, NotFound, NotServed, Resource
from runyard.kube.permissions import review_access
from runyard.kube.resources import (
    DEPLOYMENTS,
    MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICIES_V1BETA1,
    MUTATING_WEBHOOK_CONFIGURATIONS,
    NODES,
    POD_METRICS,
    RUNTIME_CLASSES,
    VALIDATING_ADMISSION_POLICIES,
)
from runyard.kube.rights import Right
from runyard.node.ledger import Ledger
from runyard.node.offer import CLASS_LABEL
from runyard.node.offer_watch import read_offer_file
from runyard.node.rights import PROVIDER_RIGHTS, list_cluster_rights, list_election_rights, list_lease_rights
from runyard.node.virtual_node import LEASE_NAMESPACE, REACHABLE
from runyard.spec.problems import Refused

Level = Literal["ok", "warning", "error"]
MOST_DEPLOYMENTS = 2000
_NEIGHBOURS = {
    "kueue": "Kueue counts quotas by requests, not by allocatable: pods that it admits still wait for room here",
    "descheduler": "the descheduler takes the node for nearly full, because allocatable excludes its own pods: leave "
    "node {node} out of its policies",
    "cluster-autoscaler": "the cluster autoscaler sees no room on node {node} beside its own pods; pods that wait for "
    "it have other reasons than `Unschedulable`, and wake nobody",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    where: Literal["local cluster", "provider"]
    text: str


async def examine_local(client: Client, *, node: str, namespace: str) -> AsyncIterator[Finding]:
    """The local cluster: rights, admission, the node, and neighbours that read its figures."""
    where: Literal["local cluster"] = "local cluster"
    try:
        rights = await _list_missing(client, list_cluster_rights(node), None)
        rights += await _list_missing(client, list_lease_rights(node), LEASE_NAMESPACE)
        rights += await _list_missing(client, list_election_rights(node), namespace)
    except KubeError as error:
        yield Finding("error", where, f"cannot be asked: {error}")
        return
    yield (
        Finding(
            "error",
            where,
            f"this user lacks rights of an agent: {', '.join(rights)}; `runyard node manifests` prints the roles",
        )
        if rights
        else Finding("ok", where, "this user has the rights of an agent")
    )
    filled = await _look_for(client, MUTATING_WEBHOOK_CONFIGURATIONS, f"{node}-filling", where, "")
    lack = "pods are not filled, so they are not bound"
    for resource in (MUTATING_ADMISSION_POLICIES_V1BETA1, MUTATING_ADMISSION_POLICIES):
        if filled.level != "ok":
            filled = await _look_for(client, resource, f"{node}-filling", where, lack)
    yield filled
    lack = "others can bind pods to the node"
    yield await _look_for(client, VALIDATING_ADMISSION_POLICIES, f"{node}-binding", where, lack)
    async for finding in _examine_node(client, node):
        yield finding
    async for finding in _examine_neighbours(client, node):
        yield finding


async def examine_provider(client: Client, *, namespace: str) -> AsyncIterator[Finding]:
    """A provider that is a cluster."""
    where: Literal["provider"] = "provider"
    try:
        missing = await _list_missing(client, PROVIDER_RIGHTS, namespace)
    except KubeError as error:
        yield Finding("error", where, f"cannot be asked: {error}")
        return
    needed = [right for right in missing if not right.startswith(_OPTIONAL)]
    if needed:
        cure = "`runyard node manifests --provider-side` prints the role"
        yield Finding("error", where, f"rights are missing in namespace {namespace}: {', '.join(needed)}; {cure}")
    else:
        yield Finding("ok", where, f"the tenant has its rights in namespace {namespace}")
    if optional := sorted(set(missing) - set(needed)):
        yield Finding("warning", where, f"optional rights are missing in namespace {namespace}: {', '.join(optional)}")
    try:
        await client.list(POD_METRICS, namespace=namespace)
    except KubeError:
        yield Finding("warning", where, "metrics.k8s.io cannot be read: `kubectl top` will have no figures")


_OPTIONAL = tuple(
    f"{verb} {plural}"
    for verb in ("get", "list", "watch", "create", "patch", "delete")
    for plural in ("ingresses", "httproutes", "pods.metrics.k8s.io", "events")
)


async def _list_missing(client: Client, rights: Iterable[Right], namespace: str | None) -> list[str]:
    accesses = [access for right in rights for access in right.list_accesses(namespace)]
    verdicts = await review_access(client, accesses)
    return [str(access) for access, verdict in verdicts.items() if not verdict.is_allowed]


async def _look_for(
    client: Client, resource: Resource, name: str, where: Literal["local cluster"], lack: str
) -> Finding:
    kind = resource.kind
    try:
        await client.get(resource, name)
    except NotServed:
        return Finding("error", where, f"the cluster does not serve {kind} {resource.version}: {lack}")
    except NotFound:
        return Finding("error", where, f"{kind} {name} is missing: {lack}; `runyard node manifests` prints it")
    except Forbidden:
        return Finding("warning", where, f"{kind} {name} may not be read by this user: not checked")
    except KubeError as error:
        return Finding("error", where, f"{kind} {name} cannot be read: {error}")
    return Finding("ok", where, f"{kind} {name} is there")


async def _examine_node(client: Client, node: str) -> AsyncIterator[Finding]:
    where: Literal["local cluster"] = "local cluster"
    try:
        found = await client.get(NODES, node)
        classes = (await client.list(RUNTIME_CLASSES, label_selector=f"{CLASS_LABEL}={node}")).items
    except NotFound:
        yield Finding("warning", where, f"there is no node {node}: no agent has registered it")
        return
    except KubeError as error:
        yield Finding("error", where, f"node {node} cannot be read: {error}")
        return
    conditions = {one["type"]: one for one in found.get("status", {}).get("conditions") or ()}
    for kind in ("Ready", REACHABLE):
        state = conditions.get(kind, {})
        is_true = state.get("status") == "True"
        detail = "" if is_true else f": {state.get('message', 'never reported')}"
        yield Finding("ok" if is_true else "error", where, f"node {node} has {kind}={state.get('status')}{detail}")
    names = ", ".join(sorted(item["metadata"]["name"] for item in classes))
    yield Finding("ok" if names else "error", where, f"RuntimeClasses of the node: {names or 'none'}")


async def _examine_neighbours(client: Client, node: str) -> AsyncIterator[Finding]:
    """Programs that read `allocatable`, which here excludes the node's own pods."""
    try:
        listing = await client.list(DEPLOYMENTS, deadline_seconds=15)
    except KubeError:
        return
    names = " ".join(item["metadata"]["name"] for item in listing.items[:MOST_DEPLOYMENTS])
    for word, meaning in _NEIGHBOURS.items():
        if word in names:
            yield Finding("warning", "local cluster", meaning.format(node=node))


def examine_offer(path: Path | None) -> list[Finding]:
    """The offer file, and shapes that never fit."""
    if path is None:
        return []
    try:
        offer = read_offer_file(path)
    except (OSError, Refused) as error:
        return [Finding("error", "provider", f"the offer cannot be read: {error}")]
    ledger = Ledger(offer.capacity)
    found = [Finding("ok", "provider", f"the offer has {len(offer.shapes)} shapes: {', '.join(sorted(offer.shapes))}")]
    for shape in offer.shapes.values():
        if shortages := ledger.find_shortage(shape.limits):
            listed = ", ".join(map(str, shortages))
            found.append(Finding("warning", "provider", f"a whole {shape.name} never fits the capacity: {listed}"))
    return found
