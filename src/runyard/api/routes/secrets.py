"""`/api/v1/-/{project}/secrets/data`: values of secrets, in and out."""

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_web
from runyard.api.openapi_models import ValuesBody
from runyard.api.query_parameters import Parameters
from runyard.api.request_bodies import read_body
from runyard.api.responses import answer
from runyard.api.routing import Routes, get_who
from runyard.app.entities import get_secret_values, put_secret_values
from runyard.domain.access import Permission

routes = Routes("/api/v1/-/{project}/secrets", tag="secrets")


@routes.get("/data", needs=Permission.READ_SECRETS, takes=("keys",), response_model=dict[str, str])
async def get_data(request: Request, project: str) -> Response:
    """The values of the named secrets that have one."""
    parameters = Parameters(request, ("keys",))
    names = [name for text in parameters.list("keys") for name in text.split(",") if name]
    parameters.finish()
    values = await get_secret_values(get_web(request).core, get_who(request), project, names)
    return answer(values, headers={"Cache-Control": "no-store"})


@routes.put("/data", needs=Permission.WRITE, body=ValuesBody, response_model=None)
async def put_data(request: Request, project: str) -> Response:
    """Store values for secrets that exist; all or none."""
    Parameters(request, ()).finish()
    values = await read_body(request, is_secret=True)
    await put_secret_values(get_web(request).core, get_who(request), project, values)
    return answer({})
