"""The ASGI application: all routes, exception handlers and middleware."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from starlette.applications import Starlette
from starlette.types import ASGIApp

from runyard.api.context import ServerContext
from runyard.api.dispatcher import Dispatcher
from runyard.api.error_responses import add_exception_handlers
from runyard.api.openapi import make_openapi_route
from runyard.api.origin_guard import OriginGuard
from runyard.api.routes import (
    attachments,
    audit,
    discovery,
    engine,
    entities,
    events,
    files,
    health,
    logs,
    policies,
    profiles,
    projects,
    runs,
    search,
    secrets,
    sessions,
    start_page,
    tokens,
    triggers,
    uploads,
    usage,
    volumes,
)
from runyard.api.routing import Routes
from runyard.api.throttle import Throttle
from runyard.api.write_probe import WriteProbe
from runyard.app.identity import RefusalAudit
from runyard.app.sessions import EngineViews
from runyard.telemetry import Observer

ALL_ROUTES: tuple[Routes, ...] = (
    start_page.routes,
    health.routes,
    discovery.routes,
    projects.routes,
    secrets.routes,
    runs.routes,
    runs.new_projects,
    events.routes,
    logs.routes,
    sessions.routes,
    usage.routes,
    usage.project_routes,
    usage.user_routes,
    usage.instance_routes,
    volumes.routes,
    triggers.routes,
    search.routes,
    profiles.routes,
    policies.routes,
    audit.routes,
    engine.routes,
    tokens.routes,
    *attachments.make_attachment_routes(),
    *files.make_file_routes(),
    *uploads.make_upload_routes(),
    *entities.ROUTES,
)
"""Every route but `/openapi.json`, which describes them."""

Application = Starlette
Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]


def make_app(context: ServerContext, *, lifespan: Lifespan | None = None) -> Application:
    """The application over a Core, without middleware."""
    app = Starlette(lifespan=lifespan)
    app.state.context = context
    app.state.yaml_turn = asyncio.Semaphore(1)
    app.state.refusals = RefusalAudit(context.core)
    app.state.engine_views = EngineViews(context.core)
    app.state.write_probe = WriteProbe(context.core)
    limits = context.limits
    app.state.throttle = Throttle(
        per_second=limits.requests_per_second, streams=limits.streams, streams_each=limits.streams_each
    )
    routes = [route for routes in ALL_ROUTES for route in routes.declared]
    app.router.default = Dispatcher([*routes, make_openapi_route(routes)], otherwise=app.router.default)
    add_exception_handlers(app)
    return app


def add_middleware(app: Application) -> ASGIApp:
    """The application inside its middleware: telemetry around the origin guard."""
    context: ServerContext = app.state.context
    return Observer(OriginGuard(app, context=context), metrics=context.metrics)
