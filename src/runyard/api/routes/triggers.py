"""`/api/v1/-/{project}/triggers/{id}/run` and `/stop`: fire one now, pause it."""

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_web
from runyard.api.openapi_models import EntityAnswer
from runyard.api.responses import answer_entity
from runyard.api.routing import Routes, get_who
from runyard.app.triggers import run_trigger, stop_trigger
from runyard.domain.access import Permission

routes = Routes("/api/v1/-/{project}/triggers/{id}", tag="triggers")


@routes.post("/run", permission=Permission.WRITE, response=EntityAnswer, name="run_trigger")
async def run(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
    """Fire it now, as its creator; one that was paused is active again."""
    web = get_web(request)
    return answer_entity(await run_trigger(web.core, get_who(request), project, id, is_open=web.is_open))


@routes.post("/stop", permission=Permission.WRITE, response=EntityAnswer, name="stop_trigger")
async def stop(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
    """Pause it, until it is run again."""
    return answer_entity(await stop_trigger(get_web(request).core, get_who(request), project, id))
