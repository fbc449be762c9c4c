"""The router: finds the route of a request, checks its permission, reads its query and calls its endpoint.

WebSockets go the same way. Until its endpoint accepts one, every refusal is an HTTP response.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, suppress

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from runyard.api.context import get_context
from runyard.api.query_parameters import read_parameters
from runyard.api.request_bodies import hold_body
from runyard.api.responses import LargeJsonResponse
from runyard.api.routing import REST, WEBSOCKET, Route, check_access, get_principal
from runyard.api.throttle import BODIES_EACH, PAGES_EACH, READS_EACH, WRITES_EACH, get_throttle, throttle_key
from runyard.app.errors import Forbidden
from runyard.app.identity import RefusalAudit
from runyard.app.ports import Unavailable, Unstorable
from runyard.domain.access import Permission
from runyard.spec.problems import limit_nearest


class Dispatcher:
    """A prefix tree over the segments of all paths. A look-up takes one step per segment, not per route.

    A literal segment wins over a parameter: `/runs/explain` over `/runs/{id}`. A last parameter like `{path:path}`
    takes all segments that are left. HEAD goes to the route of GET.
    """

    def __init__(self, routes: Iterable[Route], *, otherwise: ASGIApp) -> None:
        self._root = _Node()
        self._otherwise = otherwise
        for route in routes:
            self._root.add(route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request or a WebSocket; other scopes go to `otherwise`."""
        if scope["type"] not in ("http", "websocket"):
            await self._otherwise(scope, receive, send)
            return
        parts = scope["path"].split("/")
        route = self._find(scope.get("method", WEBSOCKET), parts)
        named = dict(_iter_named(route.path.split("/"), parts))
        scope["route"], scope["path_params"] = route, named
        if scope["type"] == "websocket":
            await self._serve_websocket(WebSocket(scope, receive, send), route, named)
            return
        request = Request(scope, receive, send)
        async with AsyncExitStack() as turn:
            try:
                await check_access(request, route.permission)
                response = await self._answer(request, route, named, turn)
            except Forbidden as error:
                await _audit_denied_access(request, route, error)
                raise
            if not isinstance(response, LargeJsonResponse):
                await turn.aclose()
            await response(scope, receive, send)

    async def _serve_websocket(self, socket: WebSocket, route: Route, named: Mapping[str, str]) -> None:
        """Until its session ends. The time before it is accepted is the endpoint's to bound."""
        try:
            await check_access(socket, route.permission)
            await self._call(socket, route, named)
        except Forbidden as error:
            await _audit_denied_access(socket, route, error)
            raise

    async def _answer(self, request: Request, route: Route, named: Mapping[str, str], turn: AsyncExitStack) -> Response:
        """The response; a large one is written. The principal waits while too many of its answers are in memory."""
        has_no_body = route.method != "GET" and (route.body is None or route.is_streamed)
        if route.permission is Permission.PUBLIC or has_no_body:
            return await self._respond(request, route, named)
        throttle, key = get_throttle(request), throttle_key(request, get_principal(request))
        if route.method != "GET":
            async with throttle.take_turn(f"bodies of {key}", most=BODIES_EACH):
                await hold_body(request)
                async with throttle.take_turn(f"writes of {key}", most=WRITES_EACH):
                    return await self._respond(request, route, named)
        await turn.enter_async_context(throttle.take_turn(f"reads of {key}", most=READS_EACH))
        if not route.has_many:
            return await self._respond(request, route, named)
        async with throttle.take_turn(f"pages of {key}", most=PAGES_EACH):
            response = await self._respond(request, route, named)
            if isinstance(response, LargeJsonResponse):
                await response.write()
            return response

    async def _respond(self, request: Request, route: Route, named: Mapping[str, str]) -> Response:
        response = await self._call(request, route, named)
        if response is None:
            raise RuntimeError(f"{route.method} {route.path} returned no response")
        return response

    async def _call(self, request: HTTPConnection, route: Route, named: Mapping[str, str]) -> Response | None:
        with limit_nearest():
            # Public routes ignore the query: probes and sign-in clients add parameters of their own.
            if route.permission is not Permission.PUBLIC:
                limits = get_context(request).limits
                request.state.parameters = read_parameters(request.query_params, route.parameters, limits=limits)
            return await route.endpoint(request, **named)

    def _find(self, method: str, parts: list[str]) -> Route:
        taken: set[str] = set()
        for node in self._root.iter_ends(parts, 0):
            if method in node.routes:
                return node.routes[method]
            taken |= node.routes.keys()
        if WEBSOCKET in taken and method in ("GET", "HEAD"):
            raise HTTPException(426, "connect with a WebSocket", headers={"Upgrade": "websocket"})
        if taken:
            raise HTTPException(405, headers={"Allow": ", ".join(sorted(taken))})
        raise HTTPException(404)


async def _audit_denied_access(request: HTTPConnection, route: Route, error: Forbidden) -> None:
    refusals: RefusalAudit = request.app.state.refusals
    project, act = request.path_params.get("project"), f"{route.method} {route.path}"
    # Access is denied even if the audit entry cannot be written.
    with suppress(Unavailable, Unstorable):
        await refusals.note(get_principal(request), route.permission, project=project, act=act, why=str(error))


def _iter_named(declared: list[str], parts: list[str]) -> Iterator[tuple[str, str]]:
    """The parameters of a path by name."""
    for index, part in enumerate(declared):
        if part.endswith(REST):
            yield part[1 : -len(REST)], "/".join(parts[index:])
        elif part.startswith("{"):
            yield part[1:-1], parts[index]


class _Node:
    """A node of the prefix tree."""

    __slots__ = ("named", "rest", "routes", "written")

    def __init__(self) -> None:
        self.routes: dict[str, Route] = {}
        self.written: dict[str, _Node] = {}
        self.named: _Node | None = None
        self.rest: _Node | None = None
        """Where a parameter that takes all segments ends."""

    def add(self, route: Route) -> None:
        """Add a route below this node. Raises `ValueError` if the path and method are taken."""
        node = self
        for part in route.path.split("/"):
            if part.endswith(REST):
                node.rest = node.rest or _Node()
                node = node.rest
            elif part.startswith("{"):
                node.named = node.named or _Node()
                node = node.named
            else:
                node = node.written.setdefault(part, _Node())
        if route.method in node.routes:
            raise ValueError(f"two routes for {route.method} {route.path}")
        node.routes[route.method] = route
        if route.method == "GET":
            node.routes["HEAD"] = route

    def iter_ends(self, parts: list[str], index: int) -> Iterator["_Node"]:
        """The nodes that match a path, the most specific first. A path parameter is never empty."""
        if index == len(parts):
            yield self
            return
        if (written := self.written.get(parts[index])) is not None:
            yield from written.iter_ends(parts, index + 1)
        if self.named is not None and parts[index]:
            yield from self.named.iter_ends(parts, index + 1)
        if self.rest is not None and all(parts[index:]):
            yield self.rest
