"""The whole provider: pods, and beside them logs, streams, usage and routes."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from runyard.kube import Client
from runyard.node.providers.kubernetes.provider import KubernetesProvider, ProviderTiming
from runyard.node.providers.kubernetes.route_objects import RouteSettings
from runyard.node.providers.kubernetes.routes import KubernetesRoutes
from runyard.node.providers.kubernetes.streams import KubernetesStreams
from runyard.node.providers.kubernetes.usage import read_usage
from runyard.node.providers.provider import LogOptions, PodUsage, Route, StreamKind, Tunnel


class ClusterProvider(KubernetesProvider):
    """Implements every optional part but `Offers`, each by its own class."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        node: str,
        routes: RouteSettings | None = None,
        timing: ProviderTiming | None = None,
    ) -> None:
        super().__init__(client, namespace=namespace, node=node, timing=timing)
        self._streams = KubernetesStreams(client, namespace=namespace, find_remote=self.find_remote)
        self._routes = KubernetesRoutes(client, namespace=namespace, node=node, settings=routes)

    def read_log(
        self, uid: str, container: str, options: LogOptions
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """See `Logs`."""
        return self._streams.read_log(uid, container, options)

    def open_tunnel(
        self,
        kind: StreamKind,
        uid: str,
        container: str | None,
        *,
        method: str,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str],
    ) -> AbstractAsyncContextManager[Tunnel]:
        """See `Relay`."""
        return self._streams.open_tunnel(kind, uid, container, method=method, query=query, headers=headers)

    async def read_usage(self) -> Sequence[PodUsage]:
        """See `Usage`."""
        return await read_usage(
            self._client,
            namespace=self._namespace,
            remote_names=lambda: {uid: pod.name for uid, pod in self.pods.items()},
        )

    async def publish_route(self, route: Route) -> None:
        """See `Routes`."""
        await self._routes.publish_route(route)

    async def withdraw_route(self, uid: str) -> None:
        """See `Routes`."""
        await self._routes.withdraw_route(uid)

    async def list_routes(self) -> frozenset[str]:
        """See `Routes`."""
        return await self._routes.list_routes()

    async def list_rejected_routes(self) -> Mapping[str, str]:
        """See `Routes`."""
        return await self._routes.list_rejected_routes()
