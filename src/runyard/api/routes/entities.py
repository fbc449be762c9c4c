"""`/api/v1/-/{project}/functions` and similar: the same CRUD routes for every entity type."""

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_context
from runyard.api.if_match import read_expected_revision
from runyard.api.list_parameters import LIST, read_query
from runyard.api.openapi_models import EntityBody, EntityResponse, PageResponse
from runyard.api.query_parameters import CASCADE, NAME, get_parameters
from runyard.api.request_bodies import read_body
from runyard.api.responses import entity_response, json_response, page_response
from runyard.api.routing import Routes, get_principal
from runyard.app.entities import TYPES, EntityType, create_entity, get_entity, list_entities, update_entity
from runyard.app.errors import Missing
from runyard.app.projects import delete_entity, delete_named
from runyard.domain.access import Permission
from runyard.spec.problem_codes import Code
from runyard.spec.readers import refuse

CONTEXT = "/api/v1/-/{project}"
SORTED_BY_NAME = ("secret",)


def make_routes(entity_type: EntityType) -> Routes:
    """The routes of one type."""
    name, plural = entity_type.name, entity_type.plural
    routes = Routes(f"{CONTEXT}/{plural}", tag=plural)
    writing = entity_type.writing

    @routes.get("", permission=Permission.READ, parameters=LIST, response=PageResponse, name=f"list_{plural}")
    async def list_all(request: Request, project: str) -> Response:
        """List entities, newest first; by default the newest version of each name."""
        query = read_query(request, name, default_sort="name" if name in SORTED_BY_NAME else "created")
        page = await list_entities(get_context(request).core, query)
        return page_response(page, number=query.page, size=query.size)

    @routes.post("", permission=writing, body=EntityBody, response=EntityResponse, name=f"create_{name}")
    async def create(request: Request, project: str) -> Response:
        """Create an entity under the id chosen by the client."""
        document = await read_body(request)
        return entity_response(
            await create_entity(get_context(request).core, get_principal(request), name, project, document)
        )

    @routes.delete("", permission=writing, parameters=(NAME, CASCADE), name=f"delete_{plural}")
    async def delete_all(request: Request, project: str) -> Response:
        """Delete all versions of a name."""
        parameters, core, who = get_parameters(request), get_context(request).core, get_principal(request)
        wanted = parameters[NAME]
        if wanted is None:
            raise refuse(Code.PARAMETER_MISSING, "`name` is missing", path=("query", "name"))
        count = await delete_named(core, who, name, project, wanted, is_cascading=parameters[CASCADE])
        return json_response({"deleted": count})

    @routes.get("/{id}", permission=Permission.READ, parameters=(NAME,), response=EntityResponse, name=f"get_{name}")
    async def get(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
        """Get an entity by its id. With `name`, only if that is its name."""
        wanted = get_parameters(request)[NAME]
        entity = await get_entity(get_context(request).core, name, project, id)
        if wanted not in (None, entity.name):
            raise Missing(name, f"{wanted}:{id}")
        return entity_response(entity)

    @routes.put("/{id}", permission=writing, body=EntityBody, response=EntityResponse, name=f"update_{name}")
    async def update(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
        """Update the fields that may change. `If-Match` names the expected revision."""
        revision, document = read_expected_revision(request), await read_body(request)
        core, who = get_context(request).core, get_principal(request)
        changed = await update_entity(core, who, name, project, id, document, expected_revision=revision)
        return entity_response(changed)

    @routes.delete("/{id}", permission=writing, parameters=(CASCADE,), name=f"delete_{name}")
    async def delete(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
        """Delete an entity; with `cascade`, also what depends on it. `If-Match` names the expected revision."""
        is_cascading = get_parameters(request)[CASCADE]
        core, who, revision = get_context(request).core, get_principal(request), read_expected_revision(request)
        await delete_entity(core, who, name, project, id, is_cascading=is_cascading, expected_revision=revision)
        return json_response({})

    return routes


ROUTES: tuple[Routes, ...] = tuple(make_routes(entity_type) for entity_type in TYPES.values())
