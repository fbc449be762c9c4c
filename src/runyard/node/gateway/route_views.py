"""What the gateway keeps of the provider's Services and EndpointSlices, and how a host is looked up in them."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from runyard.kube import Metadata, Store, View
from runyard.node.providers.kubernetes.route_objects import HOST_ANNOTATION, PORT_ANNOTATION, SERVICE_UID_LABEL

SERVICE_NAME_LABEL = "kubernetes.io/service-name"
HOST_INDEX = "host"
SERVICE_INDEX = "service"


class RouteLabels(msgspec.Struct, frozen=True, gc=False):
    """Of a route's Service, copied to its EndpointSlices by Kubernetes."""

    uid: str = msgspec.field(default="", name=SERVICE_UID_LABEL)
    service: str = msgspec.field(default="", name=SERVICE_NAME_LABEL)


class RouteAnnotations(msgspec.Struct, frozen=True, gc=False):
    """Of a route's Service."""

    host: str = msgspec.field(default="", name=HOST_ANNOTATION)
    port: str = msgspec.field(default="", name=PORT_ANNOTATION)


class RouteMetadata(Metadata, frozen=True, gc=False):
    """Of a route's Service or EndpointSlice."""

    labels: RouteLabels = RouteLabels()
    annotations: RouteAnnotations = RouteAnnotations()


class Port(msgspec.Struct, frozen=True, gc=False):
    """Of a Service: its own port. Of an EndpointSlice: the pods' port, under the same name."""

    name: str | None = None
    port: int | None = None


class RouteSpec(msgspec.Struct, frozen=True, gc=False):
    """Of a route's Service."""

    ports: tuple[Port, ...] = ()


class RouteView(View, frozen=True, gc=False):
    """A route's Service."""

    metadata: RouteMetadata
    spec: RouteSpec = RouteSpec()


class Conditions(msgspec.Struct, frozen=True, gc=False):
    """Of one endpoint; absent means ready."""

    ready: bool | None = None


class Endpoint(msgspec.Struct, frozen=True, gc=False):
    """One pod."""

    addresses: tuple[str, ...] = ()
    conditions: Conditions = Conditions()


class SliceView(View, frozen=True, gc=False):
    """An EndpointSlice of a route's Service."""

    metadata: RouteMetadata
    endpoints: tuple[Endpoint, ...] | None = ()
    ports: tuple[Port, ...] | None = ()


class Target(NamedTuple):
    """Where a pod listens."""

    address: str
    port: int

    @property
    def authority(self) -> str:
        """For a URL."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


def index_host(route: RouteView) -> Iterable[str]:
    """The host of a route, if it belongs to the Service that it is labelled with."""
    metadata = route.metadata
    host = metadata.annotations.host
    return [host] if metadata.labels.uid and host.startswith(f"{metadata.labels.uid}-") else []


def index_service(endpoints: SliceView) -> Iterable[str]:
    """The Service of an EndpointSlice, with its namespace."""
    return [f"{endpoints.metadata.namespace}/{endpoints.metadata.labels.service}"]


def find_targets(route: RouteView, slices: Store[SliceView]) -> list[Target]:
    """The ready pods of a route, on the port that HTTPS leads to."""
    wanted = next((port for port in route.spec.ports if str(port.port) == route.metadata.annotations.port), None)
    if wanted is None:
        return []
    found = slices.find_by_index(SERVICE_INDEX, f"{route.metadata.namespace}/{route.metadata.name}")
    return [
        Target(endpoint.addresses[0], port.port)
        for part in found
        for port in part.ports or ()
        if (port.name or "") == (wanted.name or "") and port.port is not None
        for endpoint in part.endpoints or ()
        if endpoint.addresses and endpoint.conditions.ready is not False
    ]
