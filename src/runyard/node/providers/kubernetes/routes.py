"""`Routes` on another Kubernetes cluster: one Service, and one Ingress or HTTPRoute, per route."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from runyard.kube import BadRequest, Client, Forbidden, Invalid, KubeError, NotFound, NotServed
from runyard.kube.resources import HTTP_ROUTES, INGRESSES, SERVICES, Resource
from runyard.node.providers.kubernetes.route_objects import (
    NODE_LABEL,
    SERVICE_UID_LABEL,
    RouteKind,
    RouteSettings,
    find_rejection,
    object_name,
    render_http_route,
    render_ingress,
    render_service,
)
from runyard.node.providers.provider import ProviderRefused, ProviderUnavailable, Route

FIELD_MANAGER = "runyard-node"
_FRONTS: dict[RouteKind, Resource] = {"ingress": INGRESSES, "httproute": HTTP_ROUTES}


class KubernetesRoutes:
    """Routes in one namespace of the provider, for one node. Implements `Routes`; it keeps no state."""

    def __init__(self, client: Client, *, namespace: str, node: str, settings: RouteSettings | None = None) -> None:
        self._client = client
        self._namespace = namespace
        self._node = node
        self._settings = settings or RouteSettings()

    async def publish_route(self, route: Route) -> None:
        """Create or update the objects of a route. Idempotent: server-side apply."""
        with _provider_errors(f"publish the route of service {route.namespace}/{route.name}"):
            service = await self._apply(SERVICES, render_service(route, node=self._node))
            match self._settings.kind:
                case "ingress":
                    body = render_ingress(route, node=self._node, owner=service, settings=self._settings)
                    await self._apply(INGRESSES, body)
                case "httproute":
                    body = render_http_route(route, node=self._node, owner=service, settings=self._settings)
                    await self._apply(HTTP_ROUTES, body)
                case "service":
                    pass
            await self._remove_other_fronts(route.uid)

    async def withdraw_route(self, uid: str) -> None:
        """Remove every object that carries the label of the route. Idempotent."""
        with _provider_errors(f"withdraw the route of service {uid}"):
            for resource in self._resources():
                found = await self._client.list(
                    resource,
                    namespace=self._namespace,
                    label_selector=f"{NODE_LABEL}={self._node},{SERVICE_UID_LABEL}={uid}",
                )
                for item in found.items:
                    metadata = item["metadata"]
                    with suppress(NotFound):
                        await self._client.delete(
                            resource, metadata["name"], namespace=self._namespace, uid=metadata["uid"]
                        )

    async def list_routes(self) -> frozenset[str]:
        """The uids of all Services that have an object here: complete, or `ProviderUnavailable`."""
        with _provider_errors("list the routes"):
            uids: set[str] = set()
            for resource in self._resources():
                found = await self._client.list(
                    resource,
                    namespace=self._namespace,
                    label_selector=f"{NODE_LABEL}={self._node},{SERVICE_UID_LABEL}",
                )
                uids.update(item["metadata"]["labels"][SERVICE_UID_LABEL] for item in found.items)
            return frozenset(uids)

    async def list_rejected_routes(self) -> Mapping[str, str]:
        """Only HTTPRoutes: controllers say nothing about an Ingress that they do not serve."""
        if self._settings.kind != "httproute":
            return {}
        gateway = f"{self._settings.gateway_namespace or self._namespace}/{self._settings.gateway}"
        with _provider_errors("read the status of the routes"):
            found = await self._client.list(
                HTTP_ROUTES,
                namespace=self._namespace,
                label_selector=f"{NODE_LABEL}={self._node},{SERVICE_UID_LABEL}",
            )
        verdicts = {
            item["metadata"]["labels"][SERVICE_UID_LABEL]: find_rejection(item, gateway=gateway) for item in found.items
        }
        return {uid: verdict for uid, verdict in verdicts.items() if verdict is not None}

    async def _remove_other_fronts(self, uid: str) -> None:
        """What an agent with another setting of `kind` has left."""
        for kind, resource in _FRONTS.items():
            if kind != self._settings.kind:
                with suppress(NotFound, NotServed, Forbidden):
                    await self._client.delete(resource, object_name(uid), namespace=self._namespace)

    def _resources(self) -> list[Resource]:
        """What leads to a Service before the Service itself: so nothing leads nowhere."""
        front = _FRONTS.get(self._settings.kind)
        return [SERVICES] if front is None else [front, SERVICES]

    async def _apply(self, resource: Resource, body: dict[str, object]) -> dict[str, object]:
        return await self._client.apply(
            resource, body, namespace=self._namespace, field_manager=FIELD_MANAGER, force=True
        )


@contextmanager
def _provider_errors(doing: str) -> Iterator[None]:
    """Errors of the cluster as a provider raises them. A missing right may be granted later: not a refusal."""
    try:
        yield
    except NotServed as error:
        raise ProviderRefused(
            "RouteKindNotServed", f"cannot {doing}: the provider's cluster does not serve this kind of object: {error}"
        ) from error
    except (BadRequest, Invalid) as error:
        raise ProviderRefused("RouteRefused", f"the provider refuses to {doing}: {error}") from error
    except KubeError as error:
        raise ProviderUnavailable(f"cannot {doing}: {error}") from error
