"""What NetworkPolicies allow, by the words of the Kubernetes API and nothing of ours: which connections pass."""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Protocol = Literal["TCP", "UDP"]
Policy = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One end of a connection: a pod, or an address that is none (`namespace` None)."""

    address: str
    namespace: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    namespace_labels: Mapping[str, str] = field(default_factory=dict)


def passes(
    policies: Sequence[Policy],
    source: Endpoint,
    target: Endpoint,
    *,
    port: int,
    protocol: Protocol = "TCP",
    is_block_for_pods: bool = False,
) -> bool:
    """Whether a connection is let out of its source and into its target.

    The API leaves open whether an `ipBlock` counts for pods: `is_block_for_pods` decides.
    """

    def is_allowed(direction: Literal["Egress", "Ingress"], pod: Endpoint, other: Endpoint) -> bool:
        selecting = [one for one in policies if _selects(one, pod) and direction in _list_types(one)]
        rules = [rule for one in selecting for rule in one["spec"].get(direction.lower()) or ()]
        peers = "to" if direction == "Egress" else "from"
        return not selecting or any(
            _has_port(rule.get("ports"), port, protocol)
            and _has_peer(rule.get(peers), other, pod.namespace, is_block_for_pods=is_block_for_pods)
            for rule in rules
        )

    return is_allowed("Egress", source, target) and is_allowed("Ingress", target, source)


def _selects(policy: Policy, pod: Endpoint) -> bool:
    is_here = policy["metadata"]["namespace"] == pod.namespace
    return is_here and _matches(policy["spec"].get("podSelector"), pod.labels)


def _list_types(policy: Policy) -> Sequence[str]:
    spec = policy["spec"]
    return spec.get("policyTypes") or ("Ingress", *(["Egress"] if spec.get("egress") else []))


def _has_port(ports: Iterable[Mapping[str, Any]] | None, port: int, protocol: Protocol) -> bool:
    """No list, or an empty one, is every port; a port without a number is every port of its protocol."""
    listed = list(ports or ())
    return not listed or any(
        one.get("protocol", "TCP") == protocol
        and ("port" not in one or one["port"] <= port <= one.get("endPort", one["port"]))
        for one in listed
    )


def _has_peer(
    peers: Iterable[Mapping[str, Any]] | None, other: Endpoint, own_namespace: str | None, *, is_block_for_pods: bool
) -> bool:
    """No list, or an empty one, is everybody."""
    listed = list(peers or ())
    return not listed or any(_is_peer(one, other, own_namespace, is_block_for_pods) for one in listed)


def _is_peer(peer: Mapping[str, Any], other: Endpoint, own_namespace: str | None, is_block_for_pods: bool) -> bool:
    if "ipBlock" in peer:
        block = peer["ipBlock"]
        is_meant = other.namespace is None or is_block_for_pods
        return (
            is_meant
            and _is_in(other, block["cidr"])
            and not any(_is_in(other, one) for one in block.get("except") or ())
        )
    if other.namespace is None:
        return False
    if "namespaceSelector" in peer:
        is_namespace = _matches(peer["namespaceSelector"], other.namespace_labels)
    else:
        is_namespace = other.namespace == own_namespace
    return is_namespace and _matches(peer.get("podSelector"), other.labels)


def _is_in(endpoint: Endpoint, network: str) -> bool:
    address, block = ipaddress.ip_address(endpoint.address), ipaddress.ip_network(network)
    return address.version == block.version and address in block


def _matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """An empty selector is everything."""
    chosen = selector or {}
    has_labels = (chosen.get("matchLabels") or {}).items() <= labels.items()
    return has_labels and all(_holds(one, labels) for one in chosen.get("matchExpressions") or ())


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return value in expression["values"]
        case "NotIn":
            return value not in expression["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case other:
            raise ValueError(f"unknown operator {other}")
