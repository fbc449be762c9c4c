"""`/api/v1/-/{project}/volumes`: volumes that a project keeps, for runs to mount as `shared_volume`."""

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_web
from runyard.api.if_match import read_expected_revision
from runyard.api.list_parameters import LIST, read_query
from runyard.api.openapi_models import EntityAnswer, PageAnswer, VolumeBody
from runyard.api.request_bodies import read_body
from runyard.api.responses import answer, answer_entity, answer_page, entity_to_json
from runyard.api.routing import Routes, get_who
from runyard.app.entities import list_entities
from runyard.app.volumes import create_volume, delete_volume, get_volume
from runyard.domain.access import Permission

routes = Routes("/api/v1/-/{project}/volumes", tag="volumes")


@routes.get("", permission=Permission.READ, parameters=LIST, response=PageAnswer, name="list_volumes")
async def list_all(request: Request, project: str) -> Response:
    """A page, by name."""
    query = read_query(request, "volume", default_sort="name")
    page = await list_entities(get_web(request).core, query)
    return answer_page([entity_to_json(one) for one in page.content], page, number=query.page, size=query.size)


@routes.post("", permission=Permission.WRITE, body=VolumeBody, response=EntityAnswer, name="create_volume")
async def create(request: Request, project: str) -> Response:
    """Keep a volume under a name that is free, within the policy's rules; CREATED until an engine binds it."""
    core, who = get_web(request).core, get_who(request)
    return answer_entity(await create_volume(core, who, project, await read_body(request)))


@routes.get("/{name}", permission=Permission.READ, response=EntityAnswer, name="get_volume")
async def get(request: Request, project: str, name: str) -> Response:
    """One by its name."""
    return answer_entity(await get_volume(get_web(request).core, project, name))


@routes.delete("/{name}", permission=Permission.WRITE, name="delete_volume")
async def delete(request: Request, project: str, name: str) -> Response:
    """Let go of it and of what is in it; not while a run that has not ended uses it."""
    core, who = get_web(request).core, get_who(request)
    await delete_volume(core, who, project, name, expected_revision=read_expected_revision(request))
    return answer({})
