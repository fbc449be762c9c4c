"""The OAuth token endpoint: exchanges a refresh token, a personal token or an access token for an access token.

Clients store every field of the answer, so absent values are left out. Signing in at an external provider will be a
grant of its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from runyard.app.audit import note_act
from runyard.app.core import Core
from runyard.app.errors import Forbidden, Unauthenticated
from runyard.app.identity.accounts import lock_accounts
from runyard.app.identity.personal_tokens import hash_token, narrow
from runyard.app.identity.refresh_tokens import (
    check_refreshable,
    find_origin,
    find_refresh_token,
    get_family,
    put_refresh_token,
    revoke_reused,
    start_family,
)
from runyard.app.model import Json, Principal, Token
from runyard.app.ports import UnitOfWork
from runyard.spec.problems import shorten

REFRESH_GRANT = "refresh_token"
EXCHANGE_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
GRANTS = (REFRESH_GRANT, EXCHANGE_GRANT)
"""The grant types of the token endpoint, for the discovery document."""

ACCESS_TYPE = "urn:ietf:params:oauth:token-type:access_token"
PERSONAL_TYPE = "urn:ietf:params:oauth:token-type:pat"
REFRESHED_BY = frozenset({"offline_access", "credentials"})
"""Scopes that ask for a refresh token; the SDK sends the second."""
MOST_CHARACTERS = 8192
MOST_CLIENT_CHARACTERS = 200


class GrantRefused(Exception):
    """An error of the token endpoint; `error` is the OAuth error code."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error

    def to_dict(self) -> Json:
        """The body of the response, whose status is 400."""
        return {"error": self.error, "error_description": str(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The principal of a token, and the personal token behind it."""

    principal: Principal
    origin: Token | None = None
    """The personal token itself, or the one it was issued for; revoking that revokes this."""
    ends_at: datetime | None = None
    family: str | None = None
    """The family of refresh tokens that an access token was issued with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The claims of an access token."""

    user: str
    scopes: frozenset[str] = frozenset()
    """Its scopes; empty is no limit."""
    origin: Token | None = None
    client_id: str | None = None
    ends_by: datetime | None = None
    """Never later than the end of the token it was issued for."""
    family: str | None = None
    """The family of refresh tokens it belongs to; revoking that revokes this."""


@dataclass(frozen=True, slots=True)
class Signed:
    """A signed token."""

    text: str = field(repr=False)
    ends_at: datetime


class TokenIssuer(Protocol):
    """Signs access tokens."""

    async def prepare(self) -> None:
        """Load or create signing keys. May write; never call it inside a unit of work."""

    def sign(self, grant: Grant) -> Signed:
        """Sign an access token. Raises `RuntimeError` without `prepare`."""


class Identifier(Protocol):
    """Identifies tokens."""

    async def identify(self, token: str, *, address: str | None) -> Identity:
        """The identity of a token. Raises `Unauthenticated`."""


Admit = Callable[[Principal], None]
"""Called with the principal before anything is written; raises `TooMany` (rate limit)."""


async def grant_token(
    core: Core,
    issuer: TokenIssuer,
    identifier: Identifier,
    form: Mapping[str, str],
    *,
    address: str | None,
    admit: Admit,
) -> Json:
    """The response of the token endpoint. Raises `GrantRefused`, and what `admit` raises."""
    grant_type = form.get("grant_type")
    for name, value in form.items():
        if len(value) > (MOST_CLIENT_CHARACTERS if name == "client_id" else MOST_CHARACTERS):
            raise GrantRefused("invalid_request", f"{name[:40]} is too long")
    if grant_type is None:
        raise GrantRefused("invalid_request", f"grant_type is missing; offered: {', '.join(GRANTS)}")
    await issuer.prepare()
    if grant_type == REFRESH_GRANT:
        return await _refresh(core, issuer, form, address=address, admit=admit)
    if grant_type == EXCHANGE_GRANT:
        return await _exchange(core, issuer, identifier, form, address=address, admit=admit)
    raise GrantRefused("unsupported_grant_type", _explain_grant(grant_type))


async def note_failure(core: Core, name: str | None, *, address: str | None) -> None:
    """Audit a wrong password. An unknown name is not recorded: it may be a password typed in the wrong field."""
    who = Principal(name=name or "anonymous", via="password", address=address)
    async with core.store.begin() as unit:
        await note_act(core, unit, who, "account.sign_in", of=("account", name), result="refused")
        await unit.commit()


async def _refresh(
    core: Core, issuer: TokenIssuer, form: Mapping[str, str], *, address: str | None, admit: Admit
) -> Json:
    text = _require(form, "refresh_token")
    async with core.store.begin(is_read_only=True) as unit:
        # Made-up tokens must not cause writes.
        found = await find_refresh_token(unit, text)
    if found is None:
        raise GrantRefused("invalid_grant", "unknown refresh token: sign in again")
    who = Principal(name=found.user, via="token", address=address)
    admit(who)
    async with core.store.begin() as unit:
        await lock_accounts(unit)
        token = await unit.accounts.use_refresh_token(hash_token(text))
        if token is None:
            problem: str | None = await revoke_reused(core, unit, text, address=address)
        else:
            problem = await check_refreshable(core, unit, token)
        if token is None or problem is not None:
            # Commit anyway: the token stays used up, and its family revoked.
            await unit.commit()
            raise GrantRefused("invalid_grant", problem or "")
        origin = await find_origin(unit, token)
        grant = Grant(
            user=token.user,
            scopes=_narrow(token.scopes, form),
            origin=origin,
            client_id=form.get("client_id"),
            ends_by=None if origin is None else origin.expires_at,
            family=get_family(token),
        )
        answer = await _answer(core, unit, issuer, who, grant, is_refreshed=True)
        await unit.commit()
    return answer


async def _exchange(
    core: Core,
    issuer: TokenIssuer,
    identifier: Identifier,
    form: Mapping[str, str],
    *,
    address: str | None,
    admit: Admit,
) -> Json:
    subject = _require(form, "subject_token")
    kind = _require(form, "subject_token_type")
    if kind not in (ACCESS_TYPE, PERSONAL_TYPE):
        raise GrantRefused("invalid_request", f"subject_token_type must be {PERSONAL_TYPE} or {ACCESS_TYPE}")
    if form.get("requested_token_type", ACCESS_TYPE) != ACCESS_TYPE:
        raise GrantRefused("invalid_request", f"requested_token_type can only be {ACCESS_TYPE}")
    try:
        identity = await identifier.identify(subject, address=address)
    except Unauthenticated as error:
        raise GrantRefused("invalid_grant", str(error)) from None
    who = identity.principal
    admit(who)
    if who.via != ("jwt" if kind == ACCESS_TYPE else "token"):
        raise GrantRefused("invalid_grant", "the subject_token does not match subject_token_type")
    # An access token is exchanged for one that expires no later. Only a personal token starts a session.
    is_refreshed = kind == PERSONAL_TYPE and bool(REFRESHED_BY & set(form.get("scope", "").split()))
    grant = Grant(
        user=who.name,
        scopes=_narrow(who.scopes or (), form),
        origin=identity.origin,
        client_id=form.get("client_id"),
        ends_by=identity.ends_at,
        family=start_family() if is_refreshed else identity.family,
    )
    async with core.store.begin() as unit:
        await lock_accounts(unit)
        answer = await _answer(core, unit, issuer, who, grant, is_refreshed=is_refreshed)
        await unit.commit()
    return {**answer, "issued_token_type": ACCESS_TYPE}


async def _answer(
    core: Core, unit: UnitOfWork, issuer: TokenIssuer, who: Principal, grant: Grant, *, is_refreshed: bool
) -> Json:
    signed = issuer.sign(grant)
    now = core.clock.now()
    answer: Json = {
        "access_token": signed.text,
        "token_type": "Bearer",
        "expires_in": int((signed.ends_at - now).total_seconds()),
        "issuer": core.options.endpoint,
    }
    if grant.client_id:
        answer["client_id"] = grant.client_id
    if is_refreshed and grant.family is not None:
        answer["refresh_token"] = await put_refresh_token(
            core, unit, grant.user, family=grant.family, origin=grant.origin, scopes=grant.scopes
        )
    origin = None if grant.origin is None else grant.origin.id
    details = {"client_id": grant.client_id, "scopes": sorted(grant.scopes), "personal_token": origin}
    await note_act(core, unit, who, "token.grant", of=("account", who.name), details=details)
    return answer


def _narrow(limits: tuple[str, ...] | frozenset[str], form: Mapping[str, str]) -> frozenset[str]:
    try:
        return narrow(limits, form.get("scope", "").split())
    except Forbidden as error:
        raise GrantRefused("invalid_scope", str(error)) from None


def _require(form: Mapping[str, str], name: str) -> str:
    value = form.get(name)
    if not value:
        raise GrantRefused("invalid_request", f"{name} is missing")
    return value


def _explain_grant(grant_type: str) -> str:
    offered = f"offered: {', '.join(GRANTS)}"
    if grant_type == "client_credentials":
        return f"client_credentials is not offered: a program uses a personal token of an account; {offered}"
    if grant_type == "password":
        return f"password is not offered: use HTTP Basic, or a personal token; {offered}"
    return f"the grant_type `{shorten(grant_type)}` is not offered; {offered}"
