"""The OpenAPI document, written from the declared routes and the pydantic models in `openapi_models.py`."""

import asyncio
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import Response

from runyard import __version__
from runyard.api.context import Limits, get_context
from runyard.api.openapi_models import ErrorResponse
from runyard.api.query_parameters import QueryParameter
from runyard.api.responses import json_response
from runyard.api.routing import REST, WEBSOCKET, Route
from runyard.domain.access import Permission

DESCRIPTION = """Runs AI tasks on Kubernetes with exactly the resources they need.

Includes the routes of DigitalHub's Core, so that its SDK works unchanged. An error response lists every problem of a
request: for people in `message`, for programs in `errors`."""

_ERRORS: Mapping[int, str] = {
    400: "The request is invalid: `message` says why, `errors` lists every problem.",
    401: "Credentials are missing, wrong or expired.",
    403: "The caller lacks the permission.",
    404: "Not found, or not in that project.",
    408: "The body stalled for 30 seconds.",
    409: "A newer release stored the run; this one cannot read it.",
    412: "`If-Match` does not name the stored revision.",
    413: "The body is too large.",
    415: "The body is neither JSON nor YAML.",
    429: "Too many requests; retry after the seconds in `Retry-After`.",
    503: "The database is unavailable; retry later.",
}
_REF = "#/components/schemas/{model}"


def make_openapi_route(routes: Sequence[Route]) -> Route:
    """`GET /openapi.json`; the document is made at the first request."""

    turn = asyncio.Lock()

    @cache
    def make(limits: Limits) -> Response:
        return json_response(make_document(routes, limits=limits))

    async def get_openapi(request: Request) -> Response:
        async with turn:
            return await asyncio.to_thread(make, get_context(request).limits)

    return Route(method="GET", path="/openapi.json", permission=Permission.PUBLIC, endpoint=get_openapi)


def make_document(routes: Iterable[Route], *, limits: Limits) -> dict[str, Any]:
    """The document of those routes, on a server with those limits."""
    models: dict[str, type[BaseModel]] = {}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if route.method == WEBSOCKET:
            # OpenAPI has no words for them: docs/users/api.md describes them.
            continue
        paths.setdefault(route.path.replace(REST, "}"), {})[route.method.lower()] = _Operation(
            route, models, limits
        ).describe()
    # Without a title: models are named by their keys, and pydantic would name the whole.
    _, schemas = models_json_schema([(model, "validation") for model in models.values()], ref_template=_REF)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Runyard", "description": DESCRIPTION, "version": __version__},
        "paths": paths,
        "components": {"schemas": schemas["$defs"]},
    }


class _Operation:
    """One route as OpenAPI describes it; the models that it refers to are added to `models`."""

    def __init__(self, route: Route, models: dict[str, type[BaseModel]], limits: Limits) -> None:
        self._route = route
        self._models = models
        self._limits = limits

    def describe(self) -> dict[str, Any]:
        """The operation object."""
        route = self._route
        name = route.name or getattr(route.endpoint, "__name__", "")
        operation: dict[str, Any] = {
            "tags": [route.tag],
            "summary": name.replace("_", " ").title(),
            "description": inspect.cleandoc(route.endpoint.__doc__ or ""),
            "operationId": f"{re.sub(r'[^0-9a-zA-Z_]', '_', name + route.path)}_{route.method.lower()}",
            "parameters": [
                *(
                    _describe_path(part.replace(REST, "}")[1:-1])
                    for part in route.path.split("/")
                    if part.startswith("{")
                ),
                *(_describe_query(parameter, self._limits) for parameter in route.parameters),
            ],
            "requestBody": self._describe_body(),
            "responses": self._describe_responses(),
            "x-needs": route.permission.value,
        }
        return {key: value for key, value in operation.items() if value}

    def _describe_body(self) -> Mapping[str, Any] | None:
        body = self._route.body
        if not isinstance(body, type):
            return body
        kinds = ("application/json", "application/x-yaml")
        return {"required": True, "content": {kind: self._describe_content(body) for kind in kinds}}

    def _describe_responses(self) -> dict[str, Any]:
        errors = {
            status: {"description": words, "content": {"application/json": ErrorResponse}}
            for status, words in _ERRORS.items()
        }
        done = {"description": "Success.", "content": {"application/json": self._route.response}}
        return {
            str(status): self._describe_response(response)
            for status, response in {200: done, **errors, **self._route.responses}.items()
        }

    def _describe_response(self, response: Mapping[str, Any]) -> Mapping[str, Any]:
        if "content" not in response:
            return response
        content = {kind: self._describe_content(shape) for kind, shape in response["content"].items()}
        return {**response, "content": content}

    def _describe_content(self, shape: Any) -> Mapping[str, Any]:
        """A media type object: it is given as one, or as a model or another type."""
        if isinstance(shape, Mapping):
            return shape
        if isinstance(shape, type) and issubclass(shape, BaseModel):
            self._models[shape.__name__] = shape
            return {"schema": {"$ref": _REF.format(model=shape.__name__)}}
        return {"schema": {} if shape is None else _describe_type(shape)}


@cache
def _describe_type(shape: Any) -> dict[str, Any]:
    return TypeAdapter(shape).json_schema()


def _describe_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "title": name.title()}}


def _describe_query(parameter: QueryParameter[Any], limits: Limits) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "query",
        "required": False,
        "description": parameter.description,
        "schema": parameter.describe(limits),
    }
