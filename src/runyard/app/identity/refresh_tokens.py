"""Refresh tokens: opaque, for one use, and never valid longer than the personal token they were issued for.

The name of a refresh token is the hash of that personal token.
"""

from datetime import datetime, timedelta
from uuid import uuid4

from runyard.app.audit import note_act
from runyard.app.core import Core
from runyard.app.identity.personal_tokens import REFRESH_PREFIX, hash_token, is_usable, make_token_text
from runyard.app.model import Principal, Token
from runyard.app.ports import UnitOfWork

KEPT_FOR = timedelta(days=1)
"""How long a used refresh token is kept, to detect a second use."""
MOST_SESSIONS = 200
"""Limit per user; the oldest are deleted. Scripts that sign in each time must not fill the database."""


async def put_refresh_token(
    core: Core, unit: UnitOfWork, user: str, *, origin: Token | None, scopes: frozenset[str]
) -> str:
    """Create a refresh token and return its text. Deletes the user's obsolete ones."""
    now = core.clock.now()
    await _delete_useless(unit, user, now=now)
    text = make_token_text(REFRESH_PREFIX)
    ends = [now + core.options.refresh_token_life]
    if origin is not None and origin.expires_at is not None:
        ends.append(origin.expires_at)
    await unit.accounts.put_token(
        Token(
            id=uuid4().hex,
            user=user,
            kind="refresh",
            hash=hash_token(text),
            name="" if origin is None else origin.hash,
            scopes=tuple(sorted(scopes)),
            created_at=now,
            expires_at=min(ends),
        )
    )
    return text


async def check_refreshable(core: Core, unit: UnitOfWork, token: Token) -> str | None:
    """Why a refresh token that was just used up is not valid, or None."""
    account = await unit.accounts.find(token.user)
    if account is None or account.is_disabled or token.created_at < account.created_at:
        return "the account is gone or disabled"
    if not is_usable(token, now=core.clock.now()):
        return "the refresh token has expired: sign in again"
    if token.name and await find_origin(unit, token) is None:
        return "its personal token was revoked: sign in again"
    return None


async def note_reuse(core: Core, unit: UnitOfWork, token_hash: str, *, address: str | None) -> str:
    """Audit the second use of a refresh token. Sessions stay: clients that share a credentials file race."""
    token = await unit.accounts.find_token(token_hash)
    if token is None or token.kind != "refresh":
        return "unknown refresh token: sign in again"
    who = Principal(name=token.user, via="token", address=address)
    await note_act(core, unit, who, "token.reuse", of=("token", token.id), result="refused")
    return "the refresh token was already used: sign in again"


async def find_origin(unit: UnitOfWork, token: Token) -> Token | None:
    """The personal token that a refresh token was issued for."""
    found = await unit.accounts.find_token(token.name) if token.name else None
    return found if found is not None and found.kind == "personal" and found.user == token.user else None


async def _delete_useless(unit: UnitOfWork, user: str, *, now: datetime) -> None:
    held = [token for token in await unit.accounts.list_tokens(user) if token.kind == "refresh"]
    for position, token in enumerate(held):
        is_old = token.revoked_at is not None and now - token.revoked_at > KEPT_FOR
        is_over = token.expires_at is not None and now >= token.expires_at
        if is_old or is_over or position >= MOST_SESSIONS:
            await unit.accounts.delete_token(token.id, user=user)
