"""What is kept of every Service of the local cluster: enough to tell whether it is ours, and nothing else."""

from typing import Any

import msgspec

from runyard.kube import Metadata, View
from runyard.node.services.service_settings import ServiceSettings


class ServiceMetadata(Metadata, frozen=True, gc=False):
    """Of any Service."""

    finalizers: tuple[str, ...] = ()
    deleted_at: str = msgspec.field(default="", name="deletionTimestamp")


class ServiceSpec(msgspec.Struct, frozen=True, gc=False):
    """Of any Service."""

    type: str = ""
    load_balancer_class: str = msgspec.field(default="", name="loadBalancerClass")


class ServiceView(View, frozen=True, gc=False):
    """Any Service, as far as it has to be known."""

    metadata: ServiceMetadata
    spec: ServiceSpec = ServiceSpec()


def concerns_us(view: ServiceView, settings: ServiceSettings) -> bool:
    """Whether the Service is of our class, or still carries our finalizer."""
    is_ours = view.spec.type == "LoadBalancer" and view.spec.load_balancer_class == settings.node
    return is_ours or settings.finalizer in view.metadata.finalizers


def wants_route(service: dict[str, Any], settings: ServiceSettings) -> bool:
    """Whether a Service, read whole, is to have a route now."""
    spec = service.get("spec", {})
    is_ours = spec.get("type") == "LoadBalancer" and spec.get("loadBalancerClass") == settings.node
    return is_ours and not service["metadata"].get("deletionTimestamp")
