"""Refresh tokens: opaque, for one use, and never valid longer than the personal token they were issued for.

Refresh token rotation with reuse detection (RFC 9700, OAuth 2.0 Security Best Current Practice): each use replaces the
token by a new one of the same family. If a used token comes again, one of the two clients stole it, and the server
cannot know which. So the whole family is revoked: the newest refresh token and all access tokens.

The name of a refresh token is the hash of its personal token. Its id starts with the id of its family.
"""

from datetime import datetime, timedelta
from uuid import uuid4

from runyard.app.audit import note_act
from runyard.app.core import Core
from runyard.app.identity.personal_tokens import REFRESH_PREFIX, hash_token, is_usable, make_token_text
from runyard.app.model import Principal, Token
from runyard.app.ports import UnitOfWork

MOST_SESSIONS = 200
"""Limit per user; the oldest are deleted. Scripts that sign in each time must not fill the database."""
MOST_USED = 500
"""Used refresh tokens per user that are kept until they expire, to detect a second use; the oldest are deleted. As many
revoked families are remembered."""
TOMBSTONE_LIFE = timedelta(days=7)
"""How long a revoked family is remembered: no access token lives longer (`--access-token-life`)."""

_TOMBSTONE = ".revoked"
"""Ends the id of the entry of a revoked family. It outlives used tokens: without it, access tokens are valid again."""


def start_family() -> str:
    """The id of a new family: of one sign-in and all tokens that it leads to."""
    return uuid4().hex


def get_family(token: Token) -> str:
    """The family of a refresh token."""
    return token.id.partition(".")[0]


async def put_refresh_token(
    core: Core, unit: UnitOfWork, user: str, *, family: str, origin: Token | None, scopes: frozenset[str]
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
            id=f"{family}.{uuid4().hex}",
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


async def revoke_reused(core: Core, unit: UnitOfWork, token_hash: str, *, address: str | None) -> str:
    """Revoke the family of a refresh token that is used a second time. Returns the message for the client."""
    token = await unit.accounts.find_token(token_hash)
    if token is None or token.kind != "refresh":
        return "unknown refresh token: sign in again"
    family, now = get_family(token), core.clock.now()
    for one in await unit.accounts.list_tokens(token.user):
        if one.kind == "refresh" and one.revoked_at is None and get_family(one) == family:
            await unit.accounts.delete_token(one.id, user=token.user)
    await unit.accounts.put_token(
        Token(
            id=f"{family}{_TOMBSTONE}",
            user=token.user,
            kind="refresh",
            hash=_hash_tombstone(family),
            created_at=now,
            expires_at=now + TOMBSTONE_LIFE,
            revoked_at=now,
        )
    )
    who = Principal(name=token.user, via="token", address=address)
    await note_act(core, unit, who, "token.reuse", of=("token", token.id), result="refused")
    return "the refresh token was already used, so its session was ended: sign in again"


async def is_family_revoked(unit: UnitOfWork, family: str) -> bool:
    """Whether a refresh token of the family was used twice: then its access tokens are not valid either."""
    return await unit.accounts.find_token(_hash_tombstone(family)) is not None


def _hash_tombstone(family: str) -> str:
    return hash_token(f"revoked family {family}")


async def find_origin(unit: UnitOfWork, token: Token) -> Token | None:
    """The personal token that a refresh token was issued for."""
    found = await unit.accounts.find_token(token.name) if token.name else None
    return found if found is not None and found.kind == "personal" and found.user == token.user else None


async def _delete_useless(unit: UnitOfWork, user: str, *, now: datetime) -> None:
    held = [token for token in await unit.accounts.list_tokens(user) if token.kind == "refresh"]
    revoked = [token for token in held if token.id.endswith(_TOMBSTONE)]
    used = [token for token in held if token.revoked_at is not None and not token.id.endswith(_TOMBSTONE)]
    active = [token for token in held if token.revoked_at is None]
    ended = [token for token in held if token.expires_at is not None and now >= token.expires_at]
    for token in {
        one.id: one for one in (*ended, *active[MOST_SESSIONS:], *used[MOST_USED:], *revoked[MOST_USED:])
    }.values():
        await unit.accounts.delete_token(token.id, user=user)
