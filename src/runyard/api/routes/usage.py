"""What runs use now, as the engine measures it: `…/usage` per container, `…/metrics/k8s` in sum, as DigitalHub does."""

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.openapi_models import ErrorResponse, UsageResponse, UsageSumResponse
from runyard.api.responses import format_time, json_response
from runyard.api.routing import Routes, get_principal
from runyard.app.engine import Usage
from runyard.app.model import Json
from runyard.app.sessions import EngineViews, UsageSum
from runyard.domain.access import Permission

routes = Routes("/api/v1/-/{project}/runs", tag="runs")
project_routes = Routes("/api/v1/projects", tag="projects")
user_routes = Routes("/api/v1/users", tag="users")
instance_routes = Routes("/api/v1/metrics", tag="engine")
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


@routes.get(
    "/{id}/metrics/k8s", permission=Permission.READ, response=UsageSumResponse, responses=_RESPONSES, is_listing=True
)
async def get_run_usage_sum(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the name in the path
    """Get what a run uses now, in sum; zeros if it does not run."""
    views: EngineViews = request.app.state.engine_views
    return json_response(_sum_to_json(id, await views.sum_run_usage(project, id)))


@project_routes.get(
    "/{project}/metrics/k8s",
    permission=Permission.READ,
    response=UsageSumResponse,
    responses=_RESPONSES,
    is_listing=True,
)
async def get_project_usage_sum(request: Request, project: str) -> Response:
    """Get what the runs of a project use now, in sum."""
    views: EngineViews = request.app.state.engine_views
    return json_response(_sum_to_json(project, await views.sum_project_usage(project)))


@user_routes.get(
    "/me/metrics/k8s",
    permission=Permission.OWN_USAGE,
    response=UsageSumResponse,
    responses=_RESPONSES,
    is_listing=True,
)
async def get_own_usage_sum(request: Request) -> Response:
    """Get what your own runs use now, in all projects, in sum."""
    views: EngineViews = request.app.state.engine_views
    user = get_principal(request).name
    return json_response(_sum_to_json(user, await views.sum_user_usage(user)))


@instance_routes.get(
    "/k8s", permission=Permission.ADMINISTER, response=UsageSumResponse, responses=_RESPONSES, is_listing=True
)
async def get_instance_usage_sum(request: Request) -> Response:
    """Get what all runs of this server use now, in sum."""
    views: EngineViews = request.app.state.engine_views
    return json_response(_sum_to_json("runyard", await views.sum_all_usage()))


def _sum_to_json(name: str, usage: UsageSum) -> Json:
    return {
        "name": name,
        "usage": {
            "pods": usage.pods,
            "containers": usage.containers,
            "cpu": round(usage.cpu_cores, 9),
            "memory": usage.memory_bytes,
            "disk": usage.disk_bytes,
        },
        "counted_runs": usage.counted_runs,
        "total_runs": usage.total_runs,
    }


def _to_json(usage: Usage) -> Json:
    shown: Json = {
        "pod": usage.pod,
        "container": usage.container,
        "at": format_time(usage.at),
        "cpu_cores": usage.cpu_cores,
        "memory_bytes": usage.memory_bytes,
    }
    return {name: value for name, value in shown.items() if value is not None}
