"""Liveness, readiness and metrics."""

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_context
from runyard.api.responses import json_response
from runyard.api.routing import PLAIN_TEXT, Routes
from runyard.api.write_probe import WriteProbe
from runyard.domain.access import Permission

routes = Routes(tag="health")


@routes.get("/healthz", permission=Permission.PUBLIC, response=dict[str, str])
async def is_alive(request: Request) -> Response:
    """Liveness: the process is running."""
    return json_response({"status": "ok"})


@routes.get("/metrics", permission=Permission.PUBLIC, responses=PLAIN_TEXT)
async def get_metrics(request: Request) -> Response:
    """Metrics in the Prometheus text format. No label names a run or a user."""
    return Response(get_context(request).metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")


@routes.get("/readyz", permission=Permission.PUBLIC, response=dict[str, str])
async def is_ready(request: Request) -> Response:
    """Readiness: the database answers, takes writes and has room for more, and the server is not shutting down."""
    if getattr(request.app.state, "is_draining", False):
        return json_response({"status": "draining"}, status=503)
    async with get_context(request).core.store.begin(is_read_only=True) as unit:
        await unit.read_clock()
    probe: WriteProbe = request.app.state.write_probe
    await probe.check()
    return json_response({"status": "ok"})
