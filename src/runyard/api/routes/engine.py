"""`/api/v1/engine`: where this server executes runs, what its engine can do, and for admins what the place has."""

from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_context
from runyard.api.openapi_models import EngineResponse, ErrorResponse, OrphansResponse
from runyard.api.openapi_volumes import OrphanedVolumesResponse
from runyard.api.responses import json_response
from runyard.api.routing import Routes, get_principal
from runyard.app.identity import find_role
from runyard.app.model import Json
from runyard.app.places import is_sweeper_on, read_findings
from runyard.app.sessions import EngineViews
from runyard.app.volumes import list_orphans as list_volume_orphans
from runyard.domain.access import Permission, allows

routes = Routes("/api/v1/engine", tag="engine")
_RESPONSES = {
    501: {"description": "This server has no engine.", "content": {"application/json": ErrorResponse}},
}


@routes.get("", permission=Permission.SIGNED_IN, response=EngineResponse)
async def get_engine(request: Request) -> Response:
    """Get the engine of this server, its place and its capabilities; `engine` is null if there is none.

    Admins also get a summary of the nodes, at most 5 seconds old, or the error that the engine answered with.
    """
    views: EngineViews = request.app.state.engine_views
    view = await views.show_engine(with_snapshot=await _is_admin(request))
    shown: Json = {"engine": view.engine, "place": view.place, "capabilities": list(view.capabilities)}
    if view.snapshot is not None:
        shown["snapshot"] = asdict(view.snapshot)
    if view.error is not None:
        shown["error"] = {"reason": view.error.code, "message": str(view.error)}
    return json_response(shown)


@routes.get("/orphans", permission=Permission.ADMINISTER, response=OrphansResponse)
async def list_orphans(request: Request) -> Response:
    """List objects of the engine that no run knows: those that are left to an admin, and those to be removed."""
    core = get_context(request).core
    place = None if core.engine is None else str(core.engine.place)
    findings = [] if place is None else await read_findings(core, [place])
    if not findings:
        return json_response({"place": place, "at": None, "is_on": await _is_sweeper_on(request), **_NOTHING})
    return json_response(asdict(findings[0]))


@routes.get(
    "/orphaned-volumes", permission=Permission.ADMINISTER, response=OrphanedVolumesResponse, responses=_RESPONSES
)
async def list_orphaned_volumes(request: Request) -> Response:
    """List claims of this installation that no volume of any project knows. Nothing removes them."""
    return json_response(asdict(await list_volume_orphans(get_context(request).core)))


_NOTHING: Json = {"count": 0, "orphans": []}


async def _is_sweeper_on(request: Request) -> bool:
    async with get_context(request).core.store.begin(is_read_only=True) as unit:
        return await is_sweeper_on(unit)


async def _is_admin(request: Request) -> bool:
    who = get_principal(request)
    async with get_context(request).core.store.begin(is_read_only=True) as unit:
        return allows(await find_role(unit, who, None), Permission.ADMINISTER, scopes=who.scopes)
