"""What the port answers. Every route is authorized by its own name: what is not known needs the most."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from runyard.kube.objects import encode
from runyard.node.kubelet_api.local_pods import LocalPod, LocalPods
from runyard.node.kubelet_api.lost_links import ReadLink
from runyard.node.kubelet_api.queries import parse_log_options, parse_stream_query
from runyard.node.kubelet_api.refusal import Refusal
from runyard.node.kubelet_api.streams import OpenStreams, provider_refusals, relay_stream, send_log
from runyard.node.kubelet_api.usage_report import PodFigures, UsageReports, is_running, render_metrics, render_summary
from runyard.node.providers.provider import Logs, Object, Provider, Relay, StreamKind, Usage

MOST_STREAMS = 500
"""Logs and upgraded connections at the same time."""
_STREAM_KINDS: dict[str, StreamKind] = {"exec": "exec", "attach": "attach", "portForward": "portforward"}
_PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class _Target:
    """The pod, and perhaps the container, that a path names."""

    pod: LocalPod
    container: str | None


class Routes:
    """The handlers."""

    def __init__(
        self,
        provider: Provider,
        pods: LocalPods,
        *,
        node: str,
        read_link: ReadLink | None = None,
        on_lost: Callable[[str, str], None] = lambda _uid, _why: None,
    ) -> None:
        self._provider = provider
        self._pods = pods
        self._node = node
        self._reports = UsageReports(provider if isinstance(provider, Usage) else None)
        self.streams = OpenStreams(MOST_STREAMS, read_link=read_link, on_lost=on_lost)

    def add_to(self, app: web.Application) -> None:
        """Add every route."""
        router = app.router
        router.add_get("/healthz", self._healthz)
        router.add_get("/pods", self._list_pods)
        router.add_get("/pods/", self._list_pods)
        router.add_get("/runningpods", self._list_running_pods)
        router.add_get("/runningpods/", self._list_running_pods)
        router.add_get("/stats/summary", self._summary)
        router.add_get("/metrics/resource", self._metrics)
        router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs, allow_head=False)
        for name in ("exec", "attach"):
            handler = self._stream_handler(_STREAM_KINDS[name])
            for path in (f"/{name}/{{namespace}}/{{pod}}", f"/{name}/{{namespace}}/{{pod}}/{{uid}}"):
                router.add_get(f"{path}/{{container}}", handler, allow_head=False)
                router.add_post(f"{path}/{{container}}", handler)
        handler = self._stream_handler("portforward")
        for path in ("/portForward/{namespace}/{pod}", "/portForward/{namespace}/{pod}/{uid}"):
            router.add_get(path, handler, allow_head=False)
            router.add_post(path, handler)

    async def _healthz(self, _: web.Request) -> web.StreamResponse:
        return web.Response(text="ok")

    async def _list_pods(self, _: web.Request) -> web.StreamResponse:
        return _json(_pod_list(await self._pods.list_pods()))

    async def _list_running_pods(self, _: web.Request) -> web.StreamResponse:
        return _json(_pod_list([pod for pod in await self._pods.list_pods() if is_running(pod)]))

    async def _summary(self, _: web.Request) -> web.StreamResponse:
        return _json(render_summary(await self._read_figures(), node=self._node, now=datetime.now(UTC)))

    async def _metrics(self, _: web.Request) -> web.StreamResponse:
        text = render_metrics(await self._read_figures(), now=datetime.now(UTC))
        return web.Response(body=text.encode(), headers={"Content-Type": _PROMETHEUS_TYPE})

    async def _read_figures(self) -> list[PodFigures]:
        with provider_refusals():
            return await self._reports.read(await self._pods.list_pods())

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        target = self._find_target(request)
        options = parse_log_options(request.query.items())
        if not isinstance(self._provider, Logs):
            raise Refusal(501, f"the provider ({self._provider.kind}) has no logs")
        container = target.container or ""
        return await send_log(
            request, self._provider, self.streams, uid=target.pod.uid, container=container, options=options
        )

    def _stream_handler(self, kind: StreamKind) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            target = self._find_target(request)
            query = parse_stream_query(kind, list(request.query.items()))
            if not isinstance(self._provider, Relay):
                raise Refusal(501, f"the provider ({self._provider.kind}) has no {kind}")
            return await relay_stream(
                request, self._provider, self.streams, kind, uid=target.pod.uid, container=target.container, query=query
            )

        return handle

    def _find_target(self, request: web.Request) -> _Target:
        """The pod of this node that the path names. A pod of another node, or of a former life, is not found."""
        path = request.match_info
        namespace, name = path["namespace"], path["pod"]
        pod = self._pods.find_pod(namespace, name)
        if pod is None or path.get("uid", pod.uid) != pod.uid:
            raise Refusal(404, f'pod "{name}" of namespace "{namespace}" is not on the node {self._node}')
        container = path.get("container")
        if container is not None and container not in pod.containers:
            raise Refusal(404, f'container "{container}" not found in pod "{name}"')
        return _Target(pod, container)


def _pod_list(pods: Sequence[Object]) -> dict[str, Any]:
    return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": list(pods)}


def _json(body: object) -> web.Response:
    return web.Response(body=encode(body), content_type="application/json")
