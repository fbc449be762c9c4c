"""Metrics, files and relationships of entities and runs."""

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_context
from runyard.api.if_match import read_expected_revision, refuse_expected_revision
from runyard.api.query_parameters import PAGE, SIZE, get_parameters
from runyard.api.request_bodies import read_body
from runyard.api.responses import json_response, slice_response
from runyard.api.routing import Routes, get_principal
from runyard.app.entities import TYPES, get_entity, put_files
from runyard.app.files import list_all_files
from runyard.app.projects import list_metrics, put_metric
from runyard.app.runs import get_run
from runyard.domain.access import Permission

_METRICS = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {"anyOf": [{"type": "number"}, {"type": "array", "items": {"type": "number"}}]},
            "example": [0.5, 0.6],
        }
    },
}
_FILES = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {"type": "array", "items": {"type": "object"}},
            "example": [{"path": "model.bin", "name": "model.bin", "size": 5}],
        }
    },
}
TYPES_WITH_FILES = ("artifact", "dataitem", "model", "containerimage")
TYPES_WITH_METRICS = ("run", "artifact", "dataitem", "model", "function", "workflow", "task")


def _add_metrics(routes: Routes, type_name: str, plural: str) -> None:
    writing = Permission.REPORT if type_name == "run" else Permission.PRODUCE
    path = f"/{plural}/{{id}}/metrics"

    @routes.get(path, permission=Permission.READ, response=dict[str, object], name=f"list_{type_name}_metrics")
    async def list_all(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
        """List metrics: numbers and series by name."""
        return json_response(dict(await list_metrics(get_context(request).core, type_name, project, id)))

    @routes.get(
        f"{path}/{{name}}", permission=Permission.READ, response=dict[str, object], name=f"get_{type_name}_metric"
    )
    async def get(request: Request, project: str, id: str, name: str) -> Response:  # noqa: A002 - the name in the path
        """Get a metric by its name; an empty series if there is none."""
        values = await list_metrics(get_context(request).core, type_name, project, id)
        return json_response({name: values.get(name, [])})

    @routes.put(f"{path}/{{name}}", permission=writing, body=_METRICS, name=f"put_{type_name}_metric")
    async def put(request: Request, project: str, id: str, name: str) -> Response:  # noqa: A002 - the name in the path
        """Replace a metric by a number or a series."""
        refuse_expected_revision(request)
        core, who = get_context(request).core, get_principal(request)
        await put_metric(core, who, type_name, project, id, name=name, given=await read_body(request))
        return json_response({})


def _add_files(routes: Routes, type_name: str, plural: str) -> None:
    path = f"/{plural}/{{id}}/files/info"

    @routes.get(path, permission=Permission.READ, parameters=(PAGE, SIZE), name=f"list_{type_name}_files")
    async def list_all(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
        """List files; with `page` or `size`, as a page."""
        parameters = get_parameters(request)
        files = await list_all_files(get_context(request).core, type_name, project, id)
        return (
            slice_response(files, number=parameters[PAGE], size=parameters[SIZE])
            if request.query_params
            else json_response(files)
        )

    @routes.put(path, permission=Permission.PRODUCE, body=_FILES, name=f"put_{type_name}_files")
    async def put(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
        """Replace the list of files."""
        core, who = get_context(request).core, get_principal(request)
        revision, given = read_expected_revision(request), await read_body(request)
        await put_files(core, who, type_name, project, id, given, expected_revision=revision)
        return json_response({})


def _add_relationships(routes: Routes, type_name: str, plural: str) -> None:
    path = f"/{plural}/{{id}}/relationships"

    @routes.get(
        path,
        permission=Permission.READ,
        response=list[dict[str, object]],
        name=f"list_{type_name}_relationships",
    )
    async def list_all(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
        """List relationships to other entities."""
        core = get_context(request).core
        entity = (
            (await get_run(core, project, id))[0]
            if type_name == "run"
            else await get_entity(core, type_name, project, id)
        )
        found = entity.metadata.get("relationships", [])
        return json_response(found)


def make_attachment_routes() -> Iterator[Routes]:
    """The routes of every type that has attachments."""
    plurals = {name: entity_type.plural for name, entity_type in TYPES.items()} | {"run": "runs"}
    for name, plural in plurals.items():
        routes = Routes("/api/v1/-/{project}", tag=plural)
        if name in TYPES_WITH_METRICS:
            _add_metrics(routes, name, plural)
        if name in TYPES_WITH_FILES:
            _add_files(routes, name, plural)
        if name in (*TYPES_WITH_METRICS, *TYPES_WITH_FILES):
            _add_relationships(routes, name, plural)
        yield routes
