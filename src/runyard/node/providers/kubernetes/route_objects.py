"""The objects of a route at a Kubernetes provider: a Service, and an Ingress or an HTTPRoute that leads to it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from runyard.node.providers.provider import Object, Route

NODE_LABEL = "k8s.gpu/node"
NAMESPACE_LABEL = "k8s.gpu/namespace"
SERVICE_UID_LABEL = "k8s.gpu/service-uid"
HOST_ANNOTATION = "k8s.gpu/host"
PORT_ANNOTATION = "k8s.gpu/port"
SERVICE_ANNOTATION = "k8s.gpu/service"
HTTP_PORT_NAME = "http"

RouteKind = Literal["ingress", "httproute", "service"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSettings:
    """How a provider publishes HTTPS."""

    kind: RouteKind = "ingress"
    """`service`: no object but the Service, for the built-in gateway (`runyard node gateway`)."""
    ingress_class: str | None = None
    """None: the cluster's default class."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Of the Ingress or HTTPRoute, for its controller."""
    tls_secret: str | None = None
    """The Secret with a wildcard certificate, in the same namespace; None: the certificate of the controller."""
    gateway: str | None = None
    gateway_namespace: str | None = None
    gateway_listener: str | None = None

    def __post_init__(self) -> None:
        if self.kind == "httproute" and not self.gateway:
            raise ValueError("routes of kind httproute need the name of a gateway: set it, or use kind ingress")


def object_name(uid: str) -> str:
    """The name of every object of the route."""
    return f"route-{uid}"


def route_labels(node: str, uid: str) -> dict[str, str]:
    """The labels by which the objects of a route are found again."""
    return {NODE_LABEL: node, SERVICE_UID_LABEL: uid}


def choose_port(ports: Sequence[Object]) -> Object:
    """The port that HTTPS leads to: the one named `http`, else the first."""
    return next((port for port in ports if port.get("name") == HTTP_PORT_NAME), ports[0])


def render_service(route: Route, *, node: str) -> Object:
    """The Service at the provider. It selects pods of this node and of the local namespace only."""
    return {
        "metadata": {
            **_metadata(route, node=node),
            "annotations": {
                HOST_ANNOTATION: route.host,
                PORT_ANNOTATION: str(choose_port(route.ports)["port"]),
                SERVICE_ANNOTATION: f"{route.namespace}/{route.name}",
            },
        },
        "spec": {
            "type": "ClusterIP",
            "selector": {**route.selector, NAMESPACE_LABEL: route.namespace, NODE_LABEL: node},
            "ports": [dict(port) for port in route.ports],
        },
    }


def render_ingress(route: Route, *, node: str, owner: Object, settings: RouteSettings) -> Object:
    """The Ingress of a route, owned by its Service."""
    port = choose_port(route.ports)["port"]
    backend = {"service": {"name": object_name(route.uid), "port": {"number": port}}}
    tls: Object = {"hosts": [route.host]}
    if settings.tls_secret:
        tls["secretName"] = settings.tls_secret
    spec: Object = {
        "rules": [{"host": route.host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}],
        "tls": [tls],
    }
    if settings.ingress_class:
        spec["ingressClassName"] = settings.ingress_class
    return {"metadata": _owned_metadata(route, node=node, owner=owner, settings=settings), "spec": spec}


def render_http_route(route: Route, *, node: str, owner: Object, settings: RouteSettings) -> Object:
    """The HTTPRoute of a route, owned by its Service."""
    parent = {
        "name": settings.gateway,
        "namespace": settings.gateway_namespace,
        "sectionName": settings.gateway_listener,
    }
    backend = {"name": object_name(route.uid), "port": choose_port(route.ports)["port"]}
    return {
        "metadata": _owned_metadata(route, node=node, owner=owner, settings=settings),
        "spec": {
            "parentRefs": [{key: value for key, value in parent.items() if value}],
            "hostnames": [route.host],
            "rules": [{"backendRefs": [backend]}],
        },
    }


def find_rejection(http_route: Object, *, gateway: str) -> str | None:
    """Why no Gateway serves an HTTPRoute, from the status that its controller wrote; None where one does."""
    parents = http_route.get("status", {}).get("parents") or ()
    conditions = [condition for parent in parents for condition in parent.get("conditions") or ()]
    if not any(condition["type"] == "Accepted" for condition in conditions):
        return f"no controller has taken the route: see whether the Gateway {gateway} exists and is programmed"
    for condition in conditions:
        if condition["type"] in ("Accepted", "ResolvedRefs") and condition["status"] == "False":
            cause = ": ".join(part for part in (condition.get("reason"), condition.get("message")) if part)
            return f"the Gateway {gateway} does not serve the route: {condition['type']} is False: {cause}"
    return None


def _metadata(route: Route, *, node: str) -> Object:
    return {
        "name": object_name(route.uid),
        "labels": {**route_labels(node, route.uid), NAMESPACE_LABEL: route.namespace},
    }


def _owned_metadata(route: Route, *, node: str, owner: Object, settings: RouteSettings) -> Object:
    reference = {"apiVersion": "v1", "kind": "Service", "name": owner["metadata"]["name"]}
    return {
        **_metadata(route, node=node),
        "annotations": {**settings.annotations, SERVICE_ANNOTATION: f"{route.namespace}/{route.name}"},
        "ownerReferences": [{**reference, "uid": owner["metadata"]["uid"]}],
    }
