"""`/api/v1/-/{project}/runs/{id}/usage`: what the containers of a run use now, as the engine measures it."""

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.openapi_models import ErrorResponse, UsageResponse
from runyard.api.responses import format_time, json_response
from runyard.api.routing import Routes
from runyard.app.engine import Usage
from runyard.app.model import Json
from runyard.app.sessions import EngineViews
from runyard.domain.access import Permission

routes = Routes("/api/v1/-/{project}/runs", tag="runs")
_RESPONSES = {
    501: {
        "description": "This server has no engine, or one that does not measure usage.",
        "content": {"application/json": ErrorResponse},
    }
}


@routes.get("/{id}/usage", permission=Permission.READ, response=UsageResponse, responses=_RESPONSES)
async def list_run_usage(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
    """List what the containers of a run use now. The run must be RUNNING."""
    views: EngineViews = request.app.state.engine_views
    found = await views.list_usage(project, id)
    return json_response({"run": id, "containers": [_to_json(usage) for usage in found]})


def _to_json(usage: Usage) -> Json:
    shown: Json = {
        "pod": usage.pod,
        "container": usage.container,
        "at": format_time(usage.at),
        "cpu_cores": usage.cpu_cores,
        "memory_bytes": usage.memory_bytes,
    }
    return {name: value for name, value in shown.items() if value is not None}
