"""`/api/v1/engine`: where this server executes runs, what its engine can do, and for admins what the place has."""

from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_context
from runyard.api.openapi_models import EngineResponse
from runyard.api.responses import json_response
from runyard.api.routing import Routes, get_principal
from runyard.app.identity import find_role
from runyard.app.model import Json
from runyard.app.sessions import EngineViews
from runyard.domain.access import Permission, allows

routes = Routes("/api/v1/engine", tag="engine")


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


async def _is_admin(request: Request) -> bool:
    who = get_principal(request)
    async with get_context(request).core.store.begin(is_read_only=True) as unit:
        return allows(await find_role(unit, who, None), Permission.ADMINISTER, scopes=who.scopes)
