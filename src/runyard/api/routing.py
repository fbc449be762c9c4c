"""Routes and the permission each needs. `Routes` is the only way to declare one, and it demands a permission."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel
from starlette.requests import HTTPConnection
from starlette.responses import Response

from runyard.api.context import get_address, get_context
from runyard.api.credentials import read_authorization
from runyard.api.query_parameters import QueryParameter
from runyard.api.throttle import limit_rate
from runyard.app.errors import Forbidden
from runyard.app.identity import authorize
from runyard.app.model import Principal
from runyard.domain.access import Permission
from runyard.spec.problem_codes import Code
from runyard.spec.readers import refuse

WEBSOCKET = "WEBSOCKET"
"""Stands for the method of a WebSocket route."""
REST = ":path}"
"""The end of a path parameter that takes all segments that are left, as in Starlette: `/files/{path:path}`."""
Endpoint = Callable[..., Awaitable[Response]]
"""Takes the request and its path parameters."""
WebSocketEndpoint = Callable[..., Awaitable[None]]
"""Takes the WebSocket, which it accepts, and its path parameters. What it raises before that is the response."""
Declare = Callable[[Endpoint], Endpoint]
OpenApi = Mapping[str, Any]
PLAIN_TEXT: Mapping[int, OpenApi] = {
    200: {"description": "Success.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}
"""The `responses` of a route that returns plain text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One declared route. From `parameters` on, it is also what the OpenAPI document says of it."""

    method: str
    path: str
    permission: Permission
    endpoint: Endpoint | WebSocketEndpoint
    parameters: tuple[QueryParameter[Any], ...] = ()
    """The query parameters that it takes. Any other is refused, but public routes ignore the query."""
    body: type[BaseModel] | OpenApi | None = None
    """The model of the JSON or YAML that it reads, or an OpenAPI request body."""
    response: Any = None
    """The type of its JSON response; None leaves it open."""
    responses: Mapping[int, OpenApi] = field(default_factory=dict)
    """OpenAPI responses by status, where `response` does not say enough."""
    name: str = ""
    """Name of the operation; by default that of the endpoint."""
    tag: str = ""
    is_streamed: bool = False
    """Whether the endpoint reads the body itself, chunk by chunk; it bounds its size."""
    is_listing: bool = False
    """Whether it answers many entities without a page size."""

    @property
    def has_many(self) -> bool:
        """Whether it answers many entities at once."""
        return self.is_listing or any(parameter.is_page_size for parameter in self.parameters)


class Routes:
    """Declares the routes of one tag under one prefix."""

    def __init__(self, prefix: str = "", *, tag: str) -> None:
        self.declared: list[Route] = []
        self._prefix = prefix
        self._tag = tag

    def get(self, path: str, *, permission: Permission, **options: Any) -> Declare:
        """Declare a GET, which answers HEAD too."""
        return self.add("GET", path, permission=permission, **options)

    def post(self, path: str, *, permission: Permission, **options: Any) -> Declare:
        """Declare a POST."""
        return self.add("POST", path, permission=permission, **options)

    def put(self, path: str, *, permission: Permission, **options: Any) -> Declare:
        """Declare a PUT."""
        return self.add("PUT", path, permission=permission, **options)

    def patch(self, path: str, *, permission: Permission, **options: Any) -> Declare:
        """Declare a PATCH."""
        return self.add("PATCH", path, permission=permission, **options)

    def delete(self, path: str, *, permission: Permission, **options: Any) -> Declare:
        """Declare a DELETE."""
        return self.add("DELETE", path, permission=permission, **options)

    def websocket(
        self, path: str, *, permission: Permission, **options: Any
    ) -> Callable[[WebSocketEndpoint], WebSocketEndpoint]:
        """Declare a WebSocket. The OpenAPI document cannot describe it; docs/users/api.md does."""

        def declare(endpoint: WebSocketEndpoint) -> WebSocketEndpoint:
            self._declare(WEBSOCKET, path, permission, endpoint, options)
            return endpoint

        return declare

    def add(self, method: str, path: str, *, permission: Permission, **options: Any) -> Declare:
        """Declare a route; `options` are the other fields of `Route`."""

        def declare(endpoint: Endpoint) -> Endpoint:
            self._declare(method, path, permission, endpoint, options)
            return endpoint

        return declare

    def _declare(
        self,
        method: str,
        path: str,
        permission: Permission,
        endpoint: Endpoint | WebSocketEndpoint,
        options: Mapping[str, Any],
    ) -> None:
        path = self._prefix + path
        route = Route(method=method, path=path, permission=permission, endpoint=endpoint, tag=self._tag, **options)
        self.declared.append(route)


async def check_access(connection: HTTPConnection, permission: Permission) -> None:
    """Check that the caller has the permission of the route, within its rate limit.

    Raises `Unauthenticated`, `Forbidden`, `TooMany`, or `Missing` for the project.
    """
    if permission is Permission.PUBLIC:
        return
    if "\0" in connection.scope["path"]:
        raise refuse(Code.TEXT_CONTROL, "the URL path has a zero byte", path=("address",))
    context = get_context(connection)
    who = await context.authenticator.authenticate(read_authorization(connection), address=get_address(connection))
    connection.state.who = who
    limit_rate(connection, who)
    async with context.core.store.begin(is_read_only=True) as unit:
        await authorize(unit, who, permission, project=connection.path_params.get("project"))


def get_principal(connection: HTTPConnection) -> Principal:
    """The authenticated caller. Raises `Forbidden` on a public route, which authenticates nobody."""
    who: Principal | None = getattr(connection.state, "who", None)
    if who is None:
        raise Forbidden("this route does not authenticate its callers")
    return who
