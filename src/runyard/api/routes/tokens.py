"""`/api/v1/tokens/personal`: personal access tokens."""

from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response

from runyard.api.context import get_context
from runyard.api.openapi_models import TokenBody
from runyard.api.request_bodies import read_body
from runyard.api.responses import format_time, json_response
from runyard.api.routing import Routes, get_principal
from runyard.app.errors import Missing
from runyard.app.identity import create_personal_token, list_personal_tokens, revoke_personal_token
from runyard.app.model import Json, Token
from runyard.domain.access import Permission
from runyard.spec.readers import Findings, expect_integer, expect_keys, expect_mapping, expect_text, read_each

routes = Routes("/api/v1/tokens/personal", tag="tokens")
FIELDS = ("name", "scopes", "days")
YEAR_DAYS = 365


@routes.get("", permission=Permission.OWN_TOKENS, response=list[dict[str, object]])
async def list_all(request: Request) -> Response:
    """List your personal tokens. The server does not keep their secret values."""
    tokens = await list_personal_tokens(get_context(request).core, get_principal(request))
    return json_response([_to_json(token) for token in tokens])


@routes.post("", permission=Permission.OWN_TOKENS, body=TokenBody, response=dict[str, object])
async def create(request: Request) -> Response:
    """Create a personal token; requires sign-in by password. Only this response contains its secret value."""
    given = await read_body(request)
    findings = Findings()
    document = expect_mapping(given, of="a token's fields")
    expect_keys(document, FIELDS, findings)
    name = findings.read(
        lambda text: expect_text(text, what="the name", most=100), document.get("name", "token"), "name"
    )
    scopes = findings.read(
        lambda texts: read_each(lambda text: expect_text(text, what="a scope", most=100), texts, of="scopes"),
        document.get("scopes", []),
        "scopes",
    )
    days = (
        findings.read(
            lambda number: expect_integer(number, what="days", at_least=1, at_most=10 * YEAR_DAYS),
            document["days"],
            "days",
        )
        if document.get("days") is not None
        else None
    )
    findings.finish()
    created = await create_personal_token(
        get_context(request).core,
        get_principal(request),
        name=name or "token",
        scopes=scopes or (),
        life=None if days is None else timedelta(days=days),
    )
    return json_response({**_to_json(created.token), "value": created.text}, headers={"Cache-Control": "no-store"})


@routes.get("/{id}", permission=Permission.OWN_TOKENS, response=dict[str, object])
async def get(request: Request, id: str) -> Response:  # noqa: A002 - the name in the path
    """Get one of your personal tokens."""
    tokens = await list_personal_tokens(get_context(request).core, get_principal(request))
    found = next((token for token in tokens if token.id == id), None)
    if found is None:
        raise Missing("token", id)
    return json_response(_to_json(found))


@routes.delete("/{id}", permission=Permission.OWN_TOKENS)
async def revoke(request: Request, id: str) -> Response:  # noqa: A002 - the name in the path
    """Revoke a personal token, and every token issued in exchange for it, at once."""
    await revoke_personal_token(get_context(request).core, get_principal(request), id)
    return json_response({})


def _to_json(token: Token) -> Json:
    shown: Json = {"id": token.id, "name": token.name, "scopes": list(token.scopes), "user": token.user}
    times = {"issued_at": token.created_at, "expires_at": token.expires_at, "last_used_at": token.last_used_at}
    return {**shown, **{name: format_time(at) for name, at in times.items() if at is not None}}
