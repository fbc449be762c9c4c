"""Routes and what each needs. A route is declared with the permission it asks for; there is no other way to add one."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel, TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_address, get_web
from runyard.api.openapi_models import ErrorAnswer
from runyard.api.throttle import take_turn
from runyard.app.errors import Forbidden
from runyard.app.identity import authorize
from runyard.app.model import Principal
from runyard.domain.access import Permission
from runyard.spec.problem_codes import Code
from runyard.spec.readers import refuse

_ERRORS: Mapping[int, str] = {
    400: "Refused: `message` says why, `errors` names every problem.",
    401: "Nobody, or credentials that are wrong or have ended.",
    403: "Known, but may not do that.",
    404: "No such thing, or not in that project.",
    408: "Nothing more of the body came for 30 seconds.",
    412: "`If-Match` names another revision than the stored one.",
    413: "The body is too large.",
    415: "The body is neither JSON nor YAML.",
    429: "Too many requests: `Retry-After` says when to come again.",
    503: "The database cannot be reached now.",
}
DESCRIBED: dict[str, type[BaseModel]] = {"ErrorAnswer": ErrorAnswer}
"""The models that routes refer to, by name: the OpenAPI document has each once. They describe, and check nothing."""


Endpoint = Callable[..., Awaitable[Response]]
"""Takes the request, and what its path names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One declared route. `described` is what the OpenAPI document says of it beside its path and its words."""

    method: str
    path: str
    needs: Permission
    endpoint: Endpoint
    described: Mapping[str, Any]


class Routes:
    """Routes that say what they need."""

    def __init__(self, prefix: str = "", *, tag: str) -> None:
        self.declared: list[Route] = []
        self._prefix = prefix
        self._tag = tag

    def get(self, path: str, *, needs: Permission, **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Declare a GET."""
        return self.add("GET", path, needs=needs, **options)

    def post(self, path: str, *, needs: Permission, **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Declare a POST."""
        return self.add("POST", path, needs=needs, **options)

    def put(self, path: str, *, needs: Permission, **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Declare a PUT."""
        return self.add("PUT", path, needs=needs, **options)

    def delete(self, path: str, *, needs: Permission, **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Declare a DELETE."""
        return self.add("DELETE", path, needs=needs, **options)

    def add(self, method: str, path: str, *, needs: Permission, **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Declare a route; `body` is the model of what it takes, `takes` the names of its query parameters."""
        body, takes, shape = options.pop("body", None), options.pop("takes", None), options.pop("response_model", None)
        extra = dict(options.pop("openapi_extra", {}))
        if body is not None:
            extra |= describe_body(body)
        if takes:
            extra["parameters"] = [describe_parameter(name) for name in takes]
        extra["x-needs"] = needs.value
        responses = {**_ERROR_RESPONSES, **options.pop("responses", {})}
        if "response_class" not in options:
            responses = {200: {"description": "Done.", **describe_content(shape)}, **responses}
        described = {"tags": [self._tag], "responses": responses, "openapi_extra": extra, **options}

        def declare(endpoint: Endpoint) -> Endpoint:
            self.declared.append(
                Route(method=method, path=self._prefix + path, needs=needs, endpoint=endpoint, described=described)
            )
            return endpoint

        return declare


async def check_access(request: Request, permission: Permission) -> None:
    """Whether who asks may. Raises `Unauthenticated`, `Forbidden`, `TooMany`, or `Missing` for the project."""
    if permission is Permission.PUBLIC:
        return
    if "\0" in request.scope["path"]:
        # No database takes it, and no name has it.
        raise refuse(Code.TEXT_CONTROL, "the address has a zero byte", path=("address",))
    web = get_web(request)
    who = await web.authenticator.authenticate(request.headers.get("authorization"), address=get_address(request))
    request.state.who = who
    take_turn(request, who)
    async with web.core.store.begin(is_read_only=True) as unit:
        await authorize(unit, who, permission, project=request.path_params.get("project"))


def get_who(request: Request) -> Principal:
    """Who asks, as the guard of the route found."""
    who: Principal | None = getattr(request.state, "who", None)
    if who is None:
        raise Forbidden("this route knows nobody")
    return who


def describe_content(shape: Any) -> dict[str, Any]:
    """The OpenAPI of an answer in JSON: one of our models, or a plain type; None says nothing of it."""
    schema: dict[str, Any] = {}
    if isinstance(shape, type) and issubclass(shape, BaseModel):
        DESCRIBED[shape.__name__] = shape
        schema = {"$ref": f"#/components/schemas/{shape.__name__}"}
    elif shape is not None:
        schema = _describe_type(shape)
    return {"content": {"application/json": {"schema": schema}}}


@cache
def _describe_type(shape: Any) -> dict[str, Any]:
    return TypeAdapter(shape).json_schema()


_ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"description": words, **describe_content(ErrorAnswer)} for status, words in _ERRORS.items()
}


def describe_body(model: type[BaseModel]) -> dict[str, Any]:
    """The OpenAPI of a body that is read by us, in JSON or YAML."""
    DESCRIBED[model.__name__] = model
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    content = {kind: {"schema": schema} for kind in ("application/json", "application/x-yaml")}
    return {"requestBody": {"required": True, "content": content}}


_WORDS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "page": ("Number of the page, from 0.", {"type": "integer", "minimum": 0, "default": 0}),
    "size": ("Entries in a page.", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 25}),
    "sort": ("`field,asc` or `field,desc`; may be repeated.", {"type": "array", "items": {"type": "string"}}),
    "q": ("Contained in id or name, in any case; of runs also in function or workflow.", {"type": "string"}),
    "name": ("The name: exact, but for projects, where it may be a part.", {"type": "string"}),
    "kind": ("The kind, exact.", {"type": "string"}),
    "user": ("The name of a user.", {"type": "string"}),
    "state": ("The state, exact.", {"type": "string"}),
    "created": ("`start` or `start,end`: times in ISO 8601 with their offset.", {"type": "string"}),
    "updated": ("`start` or `start,end`: times in ISO 8601 with their offset.", {"type": "string"}),
    "labels": ("Labels that are all there; commas between them, or repeated.", {"type": "string"}),
    "versions": ("The newest version of each name, or all.", {"enum": ["latest", "all"], "default": "latest"}),
    "function": ("`kind://project/name:id`; without `:id`, every version.", {"type": "string"}),
    "workflow": ("`kind://project/name:id`; without `:id`, every version.", {"type": "string"}),
    "task": ("`kind+action://project/id`, exact.", {"type": "string"}),
    "action": ("The action of the task: job, serve …", {"type": "string"}),
    "cascade": ("Whether what hangs on it goes too.", {"type": "boolean", "default": False}),
    "strict": ("Refuse values that would not be used, instead of warning.", {"type": "boolean", "default": False}),
    "keys": ("Names of secrets, commas between them.", {"type": "string"}),
    "id": ("The id.", {"type": "string"}),
    "role": ("owner, editor or viewer.", {"enum": ["owner", "editor", "viewer"]}),
    "label": ("Contained in the label.", {"type": "string"}),
    "reason": ("Why, in words of your own.", {"type": "string"}),
    "runtime": ("The kind of function.", {"type": "string"}),
    "fq": (
        "A filter: `type:(function)`, `metadata.labels:(a AND b)`; may be repeated.",
        {"type": "array", "items": {"type": "string"}},
    ),
    "follow": ("Go on as long as the run does.", {"type": "boolean", "default": False}),
    "since": ("Only what was written from that time on (ISO 8601).", {"type": "string"}),
    "until": ("Only what was before that time (ISO 8601).", {"type": "string"}),
    "tail": ("Only the last lines, that many.", {"type": "integer", "minimum": 0}),
    "container": ("The name of one container.", {"type": "string"}),
    "pod": ("The name of one pod.", {"type": "string"}),
    "offset": ("From that byte on.", {"type": "integer", "minimum": 0}),
    "after": ("Only those with a greater sequence.", {"type": "integer", "minimum": 0}),
    "before": ("Only those with a smaller sequence.", {"type": "integer", "minimum": 1}),
    "limit": ("At most that many.", {"type": "integer", "minimum": 1, "maximum": 1000}),
    "actor": ("Who did it.", {"type": "string"}),
    "project": ("The name of a project.", {"type": "string"}),
    "revision": ("The number of a revision; the newest if it is not said.", {"type": "integer", "minimum": 1}),
}


def describe_parameter(name: str) -> dict[str, Any]:
    """The OpenAPI of a query parameter, which mean the same wherever they are taken."""
    words, schema = _WORDS[name]
    return {"name": name, "in": "query", "required": False, "description": words, "schema": schema}
