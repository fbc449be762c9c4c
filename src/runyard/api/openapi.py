"""The OpenAPI document. FastAPI writes it, and takes no part in serving: what it did for every request was nearly half
of a GET, and to load it is a good part of the start.
"""

import asyncio
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from runyard import __version__
from runyard.api.responses import answer
from runyard.api.routing import DESCRIBED, Route
from runyard.domain.access import Permission

DESCRIPTION = """Runs AI tasks on Kubernetes with exactly the resources they need.

The routes of DigitalHub's Core, so that its SDK works unchanged, and Runyard's own beside them. Every error names
everything that is wrong with a request, for people in `message` and for programs in `errors`."""


def make_openapi_route(routes: Sequence[Route]) -> Route:
    """`GET /openapi.json`, which is made when it is first asked for."""

    turn = asyncio.Lock()

    @cache
    def make() -> Response:
        return answer(describe(routes))

    async def get_openapi(request: Request) -> Response:  # noqa: ARG001 - an endpoint
        async with turn:
            return await asyncio.to_thread(make)

    return Route(method="GET", path="/openapi.json", needs=Permission.PUBLIC, endpoint=get_openapi, described={})


def describe(routes: Iterable[Route]) -> dict[str, Any]:
    """The document of those routes."""
    from fastapi.openapi.utils import get_openapi  # noqa: PLC0415 - half a second that no start should pay
    from fastapi.routing import APIRoute  # noqa: PLC0415

    made = [
        APIRoute(one.path, one.endpoint, methods=[one.method], response_model=None, **one.described) for one in routes
    ]
    document = get_openapi(title="Runyard", version=__version__, description=DESCRIPTION, routes=made)
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for model in DESCRIBED.values():
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= schema.pop("$defs", {})
        schemas[model.__name__] = schema
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
    return document
