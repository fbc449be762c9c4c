"""`/api/v1/-/{project}/triggers/{id}/run` and `/stop`: fire or pause a trigger."""

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_context
from runyard.api.openapi_models import EntityResponse
from runyard.api.responses import entity_response
from runyard.api.routing import Routes, get_principal
from runyard.app.triggers import run_trigger, stop_trigger
from runyard.domain.access import Permission

routes = Routes("/api/v1/-/{project}/triggers/{id}", tag="triggers")


@routes.post("/run", permission=Permission.WRITE, response=EntityResponse, name="run_trigger")
async def run(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
    """Fire a trigger now, as its creator. A paused trigger becomes active."""
    context = get_context(request)
    return entity_response(
        await run_trigger(context.core, get_principal(request), project, id, is_open=context.is_open)
    )


@routes.post("/stop", permission=Permission.WRITE, response=EntityResponse, name="stop_trigger")
async def stop(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
    """Pause a trigger until it is run again."""
    return entity_response(await stop_trigger(get_context(request).core, get_principal(request), project, id))
