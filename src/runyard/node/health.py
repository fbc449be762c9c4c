"""`/healthz`, `/readyz` and `/metrics` on a port of their own, without TLS, for the kubelet that runs the agent."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

from aiohttp import web

from runyard.telemetry.node_metrics import NodeMetrics

CLOSE_SECONDS = 2.0


class HealthServer:
    """Answers while the event loop does. `find_problem` says why the agent is not ready; None if it is."""

    def __init__(self, port: int, *, find_problem: Callable[[], str | None], metrics: NodeMetrics) -> None:
        self._port = port
        self._find_problem = find_problem
        self._metrics = metrics
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/healthz", self._answer_health)
        app.router.add_get("/readyz", self._answer_readiness)
        app.router.add_get("/metrics", self._answer_metrics)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=CLOSE_SECONDS)
        await self._runner.setup()
        await web.TCPSite(self._runner, port=self._port).start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer_health(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _answer_readiness(self, _request: web.Request) -> web.Response:
        problem = self._find_problem()
        return web.Response(text="ok\n") if problem is None else web.Response(status=503, text=f"{problem}\n")

    async def _answer_metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.render(), headers={"Content-Type": "text/plain; version=0.0.4"})
