"""What hangs on entities and runs: metrics, files, relationships."""

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_web
from runyard.api.query_parameters import Parameters, read_expected_revision, read_page, refuse_expected_revision
from runyard.api.request_bodies import read_body
from runyard.api.responses import answer, answer_slice
from runyard.api.routing import Routes, get_who
from runyard.app.entities import TYPES, get_entity, list_files, put_files
from runyard.app.projects import list_metrics, put_metric
from runyard.app.runs import get_run
from runyard.domain.access import Permission

_METRICS = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"anyOf": [{"type": "number"}, {"type": "array", "items": {"type": "number"}}]},
                "example": [0.5, 0.6],
            }
        },
    }
}
_FILES = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"type": "array", "items": {"type": "object"}},
                "example": [{"path": "model.bin", "name": "model.bin", "size": 5}],
            }
        },
    }
}
FILED = ("artifact", "dataitem", "model", "containerimage")
MEASURED = ("run", "artifact", "dataitem", "model", "function", "workflow", "task")


def _add_metrics(routes: Routes, type_name: str, plural: str) -> None:
    writing = Permission.REPORT if type_name == "run" else Permission.PRODUCE
    path = f"/{plural}/{{id}}/metrics"

    @routes.get(path, needs=Permission.READ, response_model=dict[str, object], name=f"list_{type_name}_metrics")
    async def list_all(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
        """Its metrics: numbers and series by name."""
        Parameters(request, ()).finish()
        return answer(dict(await list_metrics(get_web(request).core, type_name, project, id)))

    @routes.get(
        f"{path}/{{name}}", needs=Permission.READ, response_model=dict[str, object], name=f"get_{type_name}_metric"
    )
    async def get(request: Request, project: str, id: str, name: str) -> Response:  # noqa: A002 - the name in the path
        """One metric by its name; an empty series if there is none."""
        Parameters(request, ()).finish()
        values = await list_metrics(get_web(request).core, type_name, project, id)
        return answer({name: values.get(name, [])})

    @routes.put(
        f"{path}/{{name}}", needs=writing, response_model=None, openapi_extra=_METRICS, name=f"put_{type_name}_metric"
    )
    async def put(request: Request, project: str, id: str, name: str) -> Response:  # noqa: A002 - the name in the path
        """A number or a series, in place of what was there."""
        Parameters(request, ()).finish()
        refuse_expected_revision(request)
        core, who = get_web(request).core, get_who(request)
        await put_metric(core, who, type_name, project, id, name=name, given=await read_body(request))
        return answer({})


def _add_files(routes: Routes, type_name: str, plural: str) -> None:
    path = f"/{plural}/{{id}}/files/info"

    @routes.get(
        path, needs=Permission.READ, takes=("page", "size"), response_model=None, name=f"list_{type_name}_files"
    )
    async def list_all(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
        """Its files: a list, or a page where a page is asked for."""
        parameters = Parameters(request, ("page", "size"))
        number, size = read_page(parameters, request)
        parameters.finish()
        files = await list_files(get_web(request).core, type_name, project, id)
        return answer_slice(files, number=number, size=size) if request.query_params else answer(files)

    @routes.put(
        path, needs=Permission.PRODUCE, response_model=None, openapi_extra=_FILES, name=f"put_{type_name}_files"
    )
    async def put(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
        """Replace what is said of its files."""
        Parameters(request, ()).finish()
        core, who = get_web(request).core, get_who(request)
        revision, given = read_expected_revision(request), await read_body(request)
        await put_files(core, who, type_name, project, id, given, expected_revision=revision)
        return answer({})


def _add_relationships(routes: Routes, type_name: str, plural: str) -> None:
    path = f"/{plural}/{{id}}/relationships"

    @routes.get(
        path,
        needs=Permission.READ,
        response_model=list[dict[str, object]],
        name=f"list_{type_name}_relationships",
    )
    async def list_all(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
        """What it says that it has to do with."""
        Parameters(request, ()).finish()
        core = get_web(request).core
        entity = (
            (await get_run(core, project, id))[0]
            if type_name == "run"
            else await get_entity(core, type_name, project, id)
        )
        found = entity.metadata.get("relationships", [])
        return answer(found)


def make_all() -> Iterator[Routes]:
    """The routes of every type that has such things."""
    plurals = {name: entity_type.plural for name, entity_type in TYPES.items()} | {"run": "runs"}
    for name, plural in plurals.items():
        routes = Routes("/api/v1/-/{project}", tag=plural)
        if name in MEASURED:
            _add_metrics(routes, name, plural)
        if name in FILED:
            _add_files(routes, name, plural)
        if name in (*MEASURED, *FILED):
            _add_relationships(routes, name, plural)
        yield routes
