"""Requests to every declared route that takes a body, with an expensive value in each place of its document.

A new route is attacked by itself: where its documents are not known here, the value is the whole body.
"""

import base64
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any
from urllib.parse import quote

from runyard.api.application import ALL_ROUTES
from runyard.api.context import Limits
from runyard.api.request_bodies import MOST_YAML_BYTES
from runyard.api.routing import Route
from runyard.domain.access import Permission
from tests.attack.shapes import SHAPES

PROJECT = "demo"
PREFIX = f"/api/v1/-/{PROJECT}"
USER, PASSWORD = "ada", "ada's long password"
"""An admin, who sends the attacks."""
PASSWORD_CREDENTIAL = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
BODY_BYTES = Limits().body_bytes
SMALLER_BYTES = 1 << 14
"""By how much a repeated value is smaller: enough that it has other bytes in every shape."""
HEAD_BYTES = 60_000
"""What a query string may have: a little less than the bound of a request's head."""
FUNCTION = f"container://{PROJECT}/hello:e-function"
TASK = f"container+job://{PROJECT}/e-task"
SPECS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "projects": ("project", {}),
    "functions": ("container", {"image": "busybox:1.36"}),
    "workflows": ("kfp", {}),
    "tasks": ("container+job", {"function": FUNCTION}),
    "triggers": (
        "lifecycle",
        {"task": TASK, "function": FUNCTION, "key": "store://demo/run/*", "states": ["COMPLETED"], "template": {}},
    ),
    "secrets": ("secret", {}),
    "artifacts": ("artifact", {"path": "s3://bucket/file"}),
    "dataitems": ("table", {"path": "s3://bucket/file", "schema": {"fields": []}}),
    "models": ("mlflow", {"path": "s3://bucket/file"}),
    "containerimages": ("containerimage", {}),
    "extensions": ("extension", {}),
    "configmaps": ("configmap", {"data": {"settings.toml": "epochs = 3"}}),
    "volumes": ("volume", {"size": "1Gi"}),
    "runs": ("container+job:run", {"task": TASK}),
}
"""Kind and spec of an entity of each type, by the name in its path."""
_COMMON = ("metadata", "metadata.relationships", "metadata.labels", "metadata.description", "status", "status.message")
_RUN_FIELDS = (
    *("resources", "secrets", "envs", "volumes", "node_selector", "tolerations", "affinity", "args", "parameters"),
    *("profile", "image", "labels"),
)
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "functions": ("spec.source", "spec.command", "spec.parameters"),
    "tasks": tuple(f"spec.{name}" for name in _RUN_FIELDS),
    "runs": tuple(f"spec.{name}" for name in _RUN_FIELDS),
    "plans": tuple(
        f"drafts.{place}" for place in ("function", "function.spec", "function.metadata", "task.spec.secrets")
    ),
    "triggers": ("spec.states", "spec.key", "spec.template", "spec.template.parameters", "spec.schedule"),
    "dataitems": ("spec.schema.fields", "spec.schema", "status.preview"),
    "artifacts": ("spec.src_path", "status.files"),
    "configmaps": ("spec.data",),
    "models": ("spec.parameters", "spec.signature", "spec.input_datasets"),
}
_DRAFTS = ("drafts", "drafts.function", "drafts.function.spec", "drafts.function.metadata", "drafts.task.spec.secrets")
_OTHERS: Mapping[str, tuple[Mapping[str, Any], tuple[str, ...]]] = {
    "/profiles/{name}": ({}, ("resources", "envs", "tolerations", "node_selector", "description", "documents")),
    "/policy": ({}, ("resources", "envs", "images", "resources.cpu", "resources.cpu.options", "secrets.allowed")),
    "/policy/rehearse": ({"policy": {}}, ("policy", "profiles", "policy.resources")),
    "/tokens/personal": ({"name": "mine"}, ("name", "scopes", "days")),
}
"""Documents of routes that take no entity, by the end of the path, and the places in them."""
_MARK = "@@"


@dataclass(frozen=True, slots=True)
class Attack:
    """One request."""

    method: str
    route: str
    """The path as it is declared."""
    target: str
    """The path as it is sent."""
    place: str
    """Where the value is: a field, or `body`, or `?name`."""
    shape: str
    content: bytes
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    """Other headers; one of the same name as a usual one replaces it."""
    content_bytes: int = -1
    """The size of a content that is not kept."""
    remake: Callable[[int], "Attack"] | None = field(default=None, repr=False, compare=False)
    """Makes it again with another id and another value; None if it changes nothing."""

    def repeat(self, number: int) -> "Attack":
        """The same for a new entity, with a value that is not stored yet.

        An entity that exists already would be refused early, and storing the same value again may be cheaper.
        """
        return self if self.remake is None else self.remake(number)

    def drop_content(self) -> "Attack":
        """The same for tables: thousands of contents would not fit into memory."""
        return replace(self, content=b"", content_bytes=len(self.content))

    @property
    def name(self) -> str:
        """As a table shows it."""
        size = max(self.content_bytes, len(self.content))
        return f"{self.method} {self.route} {self.place} {self.shape} ({size:,} bytes)"


def list_routes() -> list[Route]:
    """Every declared route."""
    return [route for routes in ALL_ROUTES for route in routes.declared]


def list_body_routes() -> list[Route]:
    """Every declared route that takes a body."""
    return [route for route in list_routes() if route.body is not None]


def list_query_routes() -> list[Route]:
    """Every declared route that reads with query parameters."""
    return [route for route in list_routes() if route.parameters and route.method == "GET"]


def list_places(route: Route) -> tuple[str, ...]:
    """Where an expensive value can be in the body of that route; the empty one is the whole body."""
    plural = find_plural(route)
    if plural is not None:
        more = _DRAFTS if _is_plan(route) else ()
        return ("", "spec", *_COMMON, "extensions", *_FIELDS.get(plural, ()), *more)
    known = _find_other(route)
    return ("",) if known is None else ("", *known[1])


def make_plain(route: Route, chance: random.Random) -> Attack:
    """A request with the same document and nothing hostile in it: the server takes it."""
    content = json.dumps(_make_document(route, chance)).encode()
    target = fill_path(route.path)
    return Attack(route.method, route.path, target, "body", "plain", content, headers=_find_headers(route))


def make_attack(
    route: Route, place: str, shape: str, *, count: int, chance: random.Random, is_yaml: bool = False, number: int = 0
) -> Attack:
    """A request with that value in that place. Another `number` makes another value, a little smaller."""
    remake = partial(make_attack, route, place, shape, count=count, chance=chance, is_yaml=is_yaml)
    most_bytes = (MOST_YAML_BYTES if is_yaml else BODY_BYTES) - 1000 - number * SMALLER_BYTES
    value = content = make_value(shape, count - number, most_bytes)
    if place:
        document = _make_document(route, chance)
        _put_mark(document, place.split("."))
        content = json.dumps(document).encode().replace(f'"{_MARK}"'.encode(), value)
    content_type = "application/x-yaml" if is_yaml else "application/json"
    if route.path == "/auth/token":
        content_type = "application/x-www-form-urlencoded"
    shown = f"{shape} yaml" if is_yaml else shape
    return Attack(
        *(route.method, route.path, fill_path(route.path), place or "body", shown, content, content_type),
        headers=_find_headers(route),
        remake=lambda again: remake(number=again + 1),
    )


@lru_cache(maxsize=2)
def make_value(shape: str, count: int, most_bytes: int) -> bytes:
    """The value of a shape. Kept, because the largest take longer to make than to send to the next route."""
    return SHAPES[shape](count, most_bytes, random.Random(count))


def iter_query_attacks(seed: int = 1) -> Iterator[Attack]:
    """To every list, and every other route with parameters: long, repeated and unknown ones."""
    chance = random.Random(seed)
    for route in list_query_routes():
        target = fill_path(route.path)
        queries = {
            "unknown": "&".join(f"{_near_parameter(route, chance)}{number}=1" for number in range(4000)),
            **{
                f"repeated {parameter.name}": "&".join(f"{parameter.name}=near{number}" for number in range(6000))
                for parameter in route.parameters
            },
            **{f"long {one.name}": f"{one.name}={quote(',' * 100)}{'a,' * 30_000}" for one in route.parameters},
        }
        for shape, query in queries.items():
            cut = query[:HEAD_BYTES].rpartition("&")[0] or query[:HEAD_BYTES]
            yield Attack(route.method, route.path, f"{target}?{cut}", "query", shape, b"")


def fill_path(path: str, *, project: str = PROJECT) -> str:
    """A declared path with the ids of entities that exist."""
    named = {"project": project, "name": "small", "entity": "function", "kind": "python", "revision": "1"}
    parts = path.split("/")
    plural = next((part for part in parts if part in SPECS and part != "projects"), None)
    named["id"] = f"e-{plural.removesuffix('s')}" if plural else "e-1"
    if plural == "volumes":
        named["name"] = named["id"]
    return "/".join(named.get(part[1:-1], "x") if part.startswith("{") else part for part in parts)


def make_entity(plural: str, entity_id: str) -> dict[str, Any]:
    """An entity that the server takes."""
    kind, spec = SPECS[plural]
    name = "hello" if entity_id == "e-function" else entity_id
    named = {"name": name} if plural == "volumes" else {"name": name, "id": entity_id}
    return {"kind": kind, **named, "spec": json.loads(json.dumps(spec))}


def find_plural(route: Route) -> str | None:
    """The name in the path of the type whose entities the route takes."""
    parts = route.path.split("/")
    if parts[-1] in SPECS:
        return parts[-1]
    if parts[-1] in ("{id}", "{project}", "explain", "render") and parts[-2] in SPECS:
        return parts[-2]
    return None


def _is_plan(route: Route) -> bool:
    """Whether it takes a run with drafts."""
    return route.path.endswith(("/runs/explain", "/runs/render"))


def _make_drafts(route: Route) -> dict[str, Any]:
    """The spec of a run, and the function and task to which it refers; in the project of the path."""
    project = PROJECT if "{project}" in route.path else "small"
    drafts = {"function": make_entity("functions", "e-function"), "task": make_entity("tasks", "e-task")}
    drafts["task"]["spec"]["function"] = FUNCTION.replace(PROJECT, project)
    return {"spec": {"task": TASK.replace(PROJECT, project)}, "drafts": drafts}


def _make_document(route: Route, chance: random.Random) -> dict[str, Any]:
    plural = find_plural(route)
    if plural is not None:
        is_new = route.method == "POST"
        entity_id = f"n{chance.getrandbits(64):x}" if is_new else fill_path(route.path).rpartition("/")[2]
        document = make_entity(plural, entity_id)
        if plural == "tasks" and is_new:
            document["kind"] = "container+serve"  # a function has one task of a kind, and e-task is the other
        if plural == "projects":
            document["name"] = document["id"] = entity_id if not is_new else f"p{chance.getrandbits(32):x}"
        return document | (_make_drafts(route) if _is_plan(route) else {})
    known = _find_other(route)
    return {} if known is None else dict(json.loads(json.dumps(known[0])))


def _find_other(route: Route) -> tuple[Mapping[str, Any], tuple[str, ...]] | None:
    return next((known for end, known in _OTHERS.items() if route.path.endswith(end)), None)


def _find_headers(route: Route) -> tuple[tuple[str, str], ...]:
    """Who makes tokens must be signed in by password."""
    return (("Authorization", f"Basic {PASSWORD_CREDENTIAL}"),) if route.permission is Permission.OWN_TOKENS else ()


def _put_mark(document: dict[str, Any], names: list[str]) -> None:
    for name in names[:-1]:
        document = document.setdefault(name, {})
    document[names[-1]] = _MARK


def _near_parameter(route: Route, chance: random.Random) -> str:
    return chance.choice(route.parameters).name[:-1] + chance.choice("abcdef")
