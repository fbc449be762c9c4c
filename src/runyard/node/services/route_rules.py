"""Which route a Service asks for, or why it cannot have one. Pure."""

from dataclasses import dataclass

from runyard.node.hosts import Hosts
from runyard.node.providers.provider import Object, Route

RESERVED_PREFIX = "k8s.gpu/"
MOST_PORTS = 100
MOST_SELECTORS = 100
_PORT_FIELDS = ("name", "port", "targetPort", "protocol", "appProtocol")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a Service has no route: one CamelCase word, and a sentence."""

    reason: str
    message: str


def plan_route(service: Object, hosts: Hosts | None) -> Route | Refusal:
    """The route of a Service of our class, or the first rule that it breaks."""
    metadata, spec = service["metadata"], service.get("spec", {})
    if hosts is None:
        return Refusal(
            "RoutesNotConfigured",
            "the virtual node has no tenant and domain for host names: its operator must set both",
        )
    if refusal := _find_refusal(spec):
        return refusal
    try:
        host = hosts.host_of(metadata["uid"])
    except ValueError as error:
        return Refusal("UnusableHost", str(error))
    return Route(
        uid=metadata["uid"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        host=host,
        selector=dict(spec["selector"]),
        ports=[{name: port[name] for name in _PORT_FIELDS if name in port} for port in spec["ports"]],
    )


def _find_refusal(spec: Object) -> Refusal | None:
    selector, ports = spec.get("selector") or {}, spec.get("ports") or []
    if not selector:
        return Refusal(
            "NoSelector", "spec.selector is empty: a Service of this class needs labels of pods on the virtual node"
        )
    if len(selector) > MOST_SELECTORS or len(ports) > MOST_PORTS:
        return Refusal(
            "TooLarge",
            f"spec.selector has {len(selector)} labels and spec.ports {len(ports)} ports; allowed: "
            f"{MOST_SELECTORS} and {MOST_PORTS}",
        )
    if reserved := sorted(label for label in selector if label.startswith(RESERVED_PREFIX)):
        return Refusal(
            "ReservedLabel",
            f"spec.selector names {reserved[0]}: labels that begin with {RESERVED_PREFIX} belong to the virtual node; "
            "select pods by labels of your own",
        )
    if not ports:
        return Refusal("NoPorts", "spec.ports is empty: an HTTPS route needs a port to lead to")
    for position, port in enumerate(ports):
        protocol = port.get("protocol", "TCP")
        if protocol != "TCP":
            return Refusal(
                "UnsupportedProtocol",
                f"spec.ports[{position}].protocol is {protocol}: routes of the virtual node carry HTTPS, so only TCP "
                "is allowed",
            )
    if spec.get("loadBalancerSourceRanges"):
        return Refusal(
            "SourceRangesNotEnforced",
            "spec.loadBalancerSourceRanges is set, and the provider would not enforce it: remove it, and let the "
            "pod authenticate its clients",
        )
    return None
