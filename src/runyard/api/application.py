"""The application: every route, every handler, its OpenAPI document."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.types import ASGIApp

from runyard import __version__
from runyard.api.failures import add_handlers
from runyard.api.gate import Gate
from runyard.api.routes import (
    audit,
    belongings,
    discovery,
    entities,
    events,
    health,
    logs,
    policies,
    profiles,
    projects,
    runs,
    search,
    secrets,
    tokens,
    triggers,
    volumes,
)
from runyard.api.routing import DESCRIBED, Routes
from runyard.api.throttle import Throttle
from runyard.api.web import Web
from runyard.telemetry import Observer

DESCRIPTION = """Runs AI tasks on Kubernetes with exactly the resources they need.

The routes of DigitalHub's Core, so that its SDK works unchanged, and Runyard's own beside them. Every error names
everything that is wrong with a request, for people in `message` and for programs in `errors`."""

ALL: tuple[Routes, ...] = (
    health.routes,
    discovery.routes,
    projects.routes,
    secrets.routes,
    runs.routes,
    events.routes,
    logs.routes,
    volumes.routes,
    triggers.routes,
    search.routes,
    profiles.routes,
    policies.routes,
    audit.routes,
    tokens.routes,
    *belongings.make_all(),
    *entities.ALL,
)
"""In the order in which they are tried: what is more particular comes first."""

Application = FastAPI
Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def make_app(web: Web, *, lifespan: Lifespan | None = None) -> FastAPI:
    """The application over a Core, without the outermost layers."""
    app = FastAPI(
        title="Runyard",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
    )
    app.state.web = web
    app.state.yaml_turn = asyncio.Semaphore(1)
    limits = web.limits
    app.state.throttle = Throttle(
        per_second=limits.requests_per_second, streams=limits.streams, streams_each=limits.streams_each
    )
    for routes in ALL:
        app.include_router(routes.router)
    add_handlers(app)
    app.openapi = lambda: _describe(app)  # type: ignore[method-assign]  # FastAPI's way to change the document
    return app


def guard(app: FastAPI) -> ASGIApp:
    """The application with its outermost layers."""
    web: Web = app.state.web
    return Observer(Gate(app, web=web), metrics=web.metrics)


def _describe(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes, tags=app.openapi_tags
        )
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        for model in DESCRIBED.values():
            schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas |= schema.pop("$defs", {})
            schemas[model.__name__] = schema
        schemas.pop("HTTPValidationError", None)
        schemas.pop("ValidationError", None)
        for operation in _iter_operations(document):
            operation["responses"].pop("422", None)
        app.openapi_schema = document
    return app.openapi_schema


def _iter_operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [operation for path in document["paths"].values() for operation in path.values()]
