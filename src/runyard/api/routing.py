"""Routes and the permission each needs. `Routes` is the only way to declare one, and it demands a permission."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_address, get_context
from runyard.api.query_parameters import QueryParameter
from runyard.api.throttle import limit_rate
from runyard.app.errors import Forbidden
from runyard.app.identity import authorize
from runyard.app.model import Principal
from runyard.domain.access import Permission
from runyard.spec.problem_codes import Code
from runyard.spec.readers import refuse

Endpoint = Callable[..., Awaitable[Response]]
"""Takes the request and its path parameters."""
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
    endpoint: Endpoint
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

    def delete(self, path: str, *, permission: Permission, **options: Any) -> Declare:
        """Declare a DELETE."""
        return self.add("DELETE", path, permission=permission, **options)

    def add(self, method: str, path: str, *, permission: Permission, **options: Any) -> Declare:
        """Declare a route; `options` are the other fields of `Route`."""

        def declare(endpoint: Endpoint) -> Endpoint:
            route = Route(
                method=method,
                path=self._prefix + path,
                permission=permission,
                endpoint=endpoint,
                tag=self._tag,
                **options,
            )
            self.declared.append(route)
            return endpoint

        return declare


async def check_access(request: Request, permission: Permission) -> None:
    """Check that the caller has the permission of the route, within its rate limit.

    Raises `Unauthenticated`, `Forbidden`, `TooMany`, or `Missing` for the project.
    """
    if permission is Permission.PUBLIC:
        return
    if "\0" in request.scope["path"]:
        raise refuse(Code.TEXT_CONTROL, "the URL path has a zero byte", path=("address",))
    context = get_context(request)
    who = await context.authenticator.authenticate(request.headers.get("authorization"), address=get_address(request))
    request.state.who = who
    limit_rate(request, who)
    async with context.core.store.begin(is_read_only=True) as unit:
        await authorize(unit, who, permission, project=request.path_params.get("project"))


def get_principal(request: Request) -> Principal:
    """The authenticated caller. Raises `Forbidden` on a public route, which authenticates nobody."""
    who: Principal | None = getattr(request.state, "who", None)
    if who is None:
        raise Forbidden("this route does not authenticate its callers")
    return who
