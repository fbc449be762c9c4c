"""Discovery and sign-in: configuration, public keys, the token endpoint, the current user, schemas of kinds."""

from datetime import datetime
from functools import partial
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from runyard import __version__
from runyard.api.context import get_address, get_context
from runyard.api.credentials import read_authorization
from runyard.api.openapi_models import PageResponse
from runyard.api.origin_guard import API_LEVEL
from runyard.api.query_parameters import PAGE, SIZE, get_parameters, text
from runyard.api.request_bodies import read_bytes
from runyard.api.responses import format_time, json_response, slice_response
from runyard.api.routing import PLAIN_TEXT, Routes, get_principal
from runyard.api.throttle import get_throttle, limit_failures, limit_rate
from runyard.app.entities import find_schema, list_schemas
from runyard.app.identity import GRANTS, GrantRefused, grant_token, list_visible_projects
from runyard.app.rules import load_current
from runyard.domain.access import Permission
from runyard.spec.problem_codes import Code
from runyard.spec.readers import refuse

CLIENT_ID = "runyard"
CREDENTIALS = "credentials"
"""The scope by which clients ask for what they need besides a token: credentials of the files store."""
MOST_FORM_BYTES = 1 << 16
"""Limit of the form of the token endpoint, which anybody can send."""
MOST_FORM_FIELDS = 50
"""Fields of that form; clients send six."""
RUNTIME = text("runtime", "Only schemas of this runtime (kind of function).")
_PUBLIC = {"Cache-Control": "public, max-age=60"}

routes = Routes(tag="discovery")


@routes.get("/.well-known/configuration", permission=Permission.PUBLIC, response=dict[str, object])
async def get_configuration(request: Request) -> Response:
    """Server configuration, as a flat object."""
    context = get_context(request)
    endpoint = context.core.options.endpoint
    async with context.core.store.begin(is_read_only=True) as unit:
        current = await load_current(unit)
    content: dict[str, object] = {
        "dhcore_api_level": API_LEVEL,
        "dhcore_api_version": "v1",
        "dhcore_authentication_methods": [] if context.is_open else ["basic", "oauth2", "pat"],
        "dhcore_client_id": CLIENT_ID,
        "dhcore_endpoint": endpoint,
        "dhcore_name": "runyard",
        "dhcore_version": __version__,
        "k8s_resource_profiles": sorted(current.admin_rules.profiles),
        **_describe_tokens(endpoint, prefix="oauth2_"),
    }
    content |= context.core.options.client_configuration
    return json_response(dict(sorted(content.items())), headers=_PUBLIC)


@routes.get("/.well-known/openid-configuration", permission=Permission.PUBLIC, response=dict[str, object])
@routes.get("/.well-known/oauth-authorization-server", permission=Permission.PUBLIC, response=dict[str, object])
async def get_openid(request: Request) -> Response:
    """OAuth 2.0 and OpenID Connect discovery."""
    return json_response(_describe_tokens(get_context(request).core.options.endpoint), headers=_PUBLIC)


def _describe_tokens(endpoint: str, *, prefix: str = "") -> dict[str, object]:
    described = {
        "issuer": endpoint,
        "jwks_uri": f"{endpoint}/auth/jwks",
        "token_endpoint": f"{endpoint}/auth/token",
        "userinfo_endpoint": f"{endpoint}/auth/userinfo",
        "grant_types_supported": list(GRANTS),
        "scopes_supported": ["openid", "profile", "credentials", "offline_access"],
        "token_endpoint_auth_methods_supported": ["none"],
    }
    return {f"{prefix}{name}": value for name, value in described.items()}


@routes.get("/.well-known/security.txt", permission=Permission.PUBLIC, responses=PLAIN_TEXT)
async def get_security(request: Request) -> Response:
    """Where to report a vulnerability."""
    endpoint = get_context(request).core.options.endpoint
    text = f"# Tell the operator of this server.\nCanonical: {endpoint}/.well-known/security.txt\n"
    return PlainTextResponse(text)


@routes.get("/auth/jwks", permission=Permission.PUBLIC, response=dict[str, object])
async def get_keys(request: Request) -> Response:
    """Public keys (JWKS) that verify tokens of this server."""
    return json_response(await get_context(request).issuer.jwks(), headers=_PUBLIC)


@routes.post(
    "/auth/token",
    permission=Permission.PUBLIC,
    response=dict[str, object],
    body={
        "required": True,
        "content": {
            "application/x-www-form-urlencoded": {
                "schema": {"type": "object", "additionalProperties": {"type": "string"}},
                "example": {"grant_type": "refresh_token", "refresh_token": "…", "client_id": CLIENT_ID},
            }
        },
    },
)
async def get_token(request: Request) -> Response:
    """Issue an access token: by refresh token, or in exchange for a personal token.

    With the scope `credentials` come those of the files store, if the operator gives them to clients.
    """
    async with get_throttle(request).hold_anonymous_body():
        content = await read_bytes(request, most=MOST_FORM_BYTES)
    try:
        pairs = parse_qsl(
            content.decode(),
            keep_blank_values=True,
            max_num_fields=MOST_FORM_FIELDS,
            strict_parsing=bool(content),
        )
    except ValueError:
        raise refuse(Code.BODY_FORM, "the body must be a form: application/x-www-form-urlencoded") from None
    if any("\0" in text for pair in pairs for text in pair):
        raise refuse(Code.TEXT_CONTROL, "the form has zero bytes")
    context = get_context(request)
    form = dict(pairs)
    address, admit = get_address(request), partial(limit_rate, request)
    try:
        granted = await grant_token(
            context.core, context.issuer, context.authenticator, form, address=address, admit=admit
        )
    except GrantRefused:
        limit_failures(request, address)
        raise
    if CREDENTIALS in form.get("scope", "").split():
        granted = {**granted, **context.core.options.client_credentials}
    return json_response(granted, headers={"Cache-Control": "no-store"})


@routes.get("/auth/userinfo", permission=Permission.SIGNED_IN, response=dict[str, object])
async def get_user(request: Request) -> Response:
    """The signed-in user."""
    who = get_principal(request)
    return json_response({"sub": who.name, "preferred_username": who.name})


@routes.get("/api/auth", permission=Permission.SIGNED_IN, response=dict[str, object])
@routes.post("/api/auth", permission=Permission.SIGNED_IN, response=dict[str, object])
async def probe(request: Request) -> Response:
    """Check your credentials, and list your permissions and when a token expires (`expires_at`)."""
    who = get_principal(request)
    permissions = ["ROLE_ADMIN"] if who.is_admin else ["ROLE_USER"]
    core = get_context(request).core
    async with core.store.begin(is_read_only=True) as unit:
        visible = await list_visible_projects(unit, who)
    permissions += [f"{one}:ROLE_USER" for one in sorted(visible or ())]
    ends_at = await _find_end(request)
    expiry = {} if ends_at is None else {"expires_at": format_time(ends_at)}
    return json_response({"username": who.name, "permissions": permissions, **expiry})


async def _find_end(request: Request) -> datetime | None:
    """When the token of the request expires; None for a password and on a server without accounts."""
    context = get_context(request)
    scheme, _, token = (read_authorization(request) or "").partition(" ")
    if context.is_open or scheme.lower() != "bearer":
        return None
    return (await context.authenticator.identify(token.strip(), address=get_address(request))).ends_at


@routes.get(
    "/api/v1/schemas/{entity}",
    permission=Permission.SIGNED_IN,
    parameters=(RUNTIME, PAGE, SIZE),
    response=PageResponse,
)
async def get_schemas(request: Request, entity: str) -> Response:
    """JSON Schemas of the specs of an entity type, one page."""
    parameters = get_parameters(request)
    runtime = parameters[RUNTIME]
    found = [one for one in list_schemas(entity) if runtime is None or one["runtime"] == runtime]
    return slice_response(found, number=parameters[PAGE], size=parameters[SIZE])


@routes.get("/api/v1/schemas/{entity}/{kind}", permission=Permission.SIGNED_IN, response=dict[str, object])
async def get_schema(request: Request, entity: str, kind: str) -> Response:
    """JSON Schema of the spec of one kind."""
    return json_response(find_schema(entity, kind))
