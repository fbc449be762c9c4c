"""`runyard node doctor`: looks at both sides, and says what is missing and how to mend it. Changes nothing."""

from collections.abc import AsyncIterator, Iterable, Mapping
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
    NAMESPACES,
    NODES,
    POD_METRICS,
    RUNTIME_CLASSES,
    VALIDATING_ADMISSION_POLICIES,
)
from runyard.kube.rights import Right
from runyard.node.ledger import Ledger
from runyard.node.offer import CLASS_LABEL
from runyard.node.offer_watch import read_offer_file
from runyard.node.provider_tie import PROVIDER_ANNOTATION
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
_STATIC_NEIGHBOURS = {
    "kueue": "give Kueue's flavor of node {node} no more quota than the node's capacity: pods that it admits beyond "
    "that wait in the default scheduler",
    "descheduler": "the descheduler reads node {node} as any other node, and may evict its pods: leave the node out of "
    "its policies if they are not to be moved",
    "cluster-autoscaler": "pods that wait for node {node} are `Unschedulable`: the cluster autoscaler looks at them "
    "in vain, because their RuntimeClass selects this node alone",
}
"""With `--allocatable=static`."""


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
        classes = (await client.list(RUNTIME_CLASSES, label_selector=f"{CLASS_LABEL}={node}")).items
        is_static = any((one.get("scheduling") or {}).get("tolerations") for one in classes)
        rights = await _list_missing(client, list_cluster_rights(node, is_static=is_static), None)
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
    if is_static:
        who = (
            "the default scheduler binds, and may preempt; DaemonSets that tolerate every taint must leave out the node"
        )
        yield Finding("ok", where, f"node {node} has constant figures (--allocatable=static): {who}")
    async for finding in _examine_neighbours(client, node, _STATIC_NEIGHBOURS if is_static else _NEIGHBOURS):
        yield finding


async def find_tie(client: Client, *, node: str) -> str | None:
    """The provider that has the node's pods, as the Node says; None if nobody knows."""
    try:
        found = await client.get(NODES, node)
    except KubeError:
        return None
    return (found["metadata"].get("annotations") or {}).get(PROVIDER_ANNOTATION)


async def examine_provider(client: Client, *, namespace: str, tie: str | None = None) -> AsyncIterator[Finding]:
    """A provider that is a cluster. `tie` is the provider that has the node's pods."""
    where: Literal["provider"] = "provider"
    yield await _examine_namespace(client, namespace, tie)
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


async def _examine_namespace(client: Client, namespace: str, tie: str | None) -> Finding:
    """Whether the namespace is there, and is the one that has the node's pods."""
    try:
        found = await client.get(NAMESPACES, namespace)
    except NotFound:
        return Finding("error", "provider", f"namespace {namespace} does not exist")
    except Forbidden:
        lack = "an agent cannot tell this provider from another one, nor see that the namespace is deleted"
        cure = "`runyard node manifests --provider-side` prints the role"
        return Finding("warning", "provider", f"namespace {namespace} may not be read: {lack}; {cure}")
    except KubeError as error:
        return Finding("error", "provider", f"namespace {namespace} cannot be read: {error}")
    uid = found["metadata"]["uid"]
    if "deletionTimestamp" in found["metadata"]:
        return Finding("error", "provider", f"namespace {namespace} is being deleted")
    if tie not in (None, uid):
        cure = f"go back to it, or give its pods up by `runyard node --accept-provider={uid}`"
        return Finding("error", "provider", f"the node's pods are at the provider {tie}, this one is {uid}: {cure}")
    return Finding("ok", "provider", f"namespace {namespace} is the provider {uid}")


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


async def _examine_neighbours(client: Client, node: str, meanings: Mapping[str, str]) -> AsyncIterator[Finding]:
    """Programs that read `allocatable`, which excludes the node's own pods unless it is static."""
    try:
        listing = await client.list(DEPLOYMENTS, deadline_seconds=15)
    except KubeError:
        return
    names = " ".join(item["metadata"]["name"] for item in listing.items[:MOST_DEPLOYMENTS])
    for word, meaning in meanings.items():
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
