"""`/api/v1/-/{project}/volumes`: persistent volumes of a project, which runs mount as `shared_volume`."""

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_context
from runyard.api.if_match import read_expected_revision
from runyard.api.list_parameters import LIST, read_query
from runyard.api.openapi_volumes import VolumeBody, VolumePage, VolumeResponse
from runyard.api.request_bodies import read_body
from runyard.api.responses import entity_response, json_response, page_response
from runyard.api.routing import Routes, get_principal
from runyard.app.volumes import create_volume, delete_volume, get_volume, list_volumes
from runyard.domain.access import Permission

routes = Routes("/api/v1/-/{project}/volumes", tag="volumes")


@routes.get("", permission=Permission.READ, parameters=LIST, response=VolumePage, name="list_volumes")
async def list_all(request: Request, project: str) -> Response:
    """List volumes by name, with the ledger in `status`: owner, size and class, runs that use them, expiry.

    Volumes of kind `volume` were created by a user; those of kind `claim` are claims that outlive their run.
    """
    query = read_query(request, "volume", default_sort="name")
    page = await list_volumes(get_context(request).core, query)
    return page_response(page, number=query.page, size=query.size)


@routes.post("", permission=Permission.WRITE, body=VolumeBody, response=VolumeResponse, name="create_volume")
async def create(request: Request, project: str) -> Response:
    """Create a volume under an unused name, within the policy. It is CREATED until an engine has it, then READY."""
    core, who = get_context(request).core, get_principal(request)
    return entity_response(await create_volume(core, who, project, await read_body(request)))


@routes.get("/{name}", permission=Permission.READ, response=VolumeResponse, name="get_volume")
async def get(request: Request, project: str, name: str) -> Response:
    """Get a volume by its name, with the ledger in `status`."""
    return entity_response(await get_volume(get_context(request).core, project, name))


@routes.delete("/{name}", permission=Permission.WRITE, name="delete_volume")
async def delete(request: Request, project: str, name: str) -> Response:
    """Delete a volume and its data. Refused while a run that has not ended uses it.

    A volume that an engine has is DELETING until its claim is gone.
    """
    core, who = get_context(request).core, get_principal(request)
    await delete_volume(core, who, project, name, expected_revision=read_expected_revision(request))
    return json_response({})
