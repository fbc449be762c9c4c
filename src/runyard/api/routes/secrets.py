"""`/api/v1/-/{project}/secrets/data`: read and write the values of secrets."""

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_context
from runyard.api.openapi_models import ValuesBody
from runyard.api.query_parameters import get_parameters, texts
from runyard.api.request_bodies import read_body
from runyard.api.responses import json_response
from runyard.api.routing import Routes, get_principal
from runyard.app.entities import get_secret_values, put_secret_values
from runyard.domain.access import Permission

routes = Routes("/api/v1/-/{project}/secrets", tag="secrets")
KEYS = texts("keys", "Names of secrets, separated by commas; may be repeated.", schema={"type": "string"})


@routes.get("/data", permission=Permission.READ_SECRETS, parameters=(KEYS,), response=dict[str, str])
async def get_data(request: Request, project: str) -> Response:
    """Get the values of the named secrets; secrets without a value are left out."""
    names = [name for text in get_parameters(request)[KEYS] for name in text.split(",") if name]
    values = await get_secret_values(get_context(request).core, get_principal(request), project, names)
    return json_response(values, headers={"Cache-Control": "no-store"})


@routes.put("/data", permission=Permission.WRITE, body=ValuesBody)
async def put_data(request: Request, project: str) -> Response:
    """Set the values of existing secrets, all or none."""
    values = await read_body(request, is_secret=True)
    await put_secret_values(get_context(request).core, get_principal(request), project, values)
    return json_response({})
