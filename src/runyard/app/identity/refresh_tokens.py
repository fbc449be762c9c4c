"""Refresh tokens: opaque, for one use, and never valid longer than the personal token they were issued for.

Refresh token rotation with reuse detection (RFC 9700, OAuth 2.0 Security Best Current Practice): each use replaces the
token by a new one of the same family. If a used token comes again, one of the two clients stole it, and the server
cannot know which. So the whole family is revoked: the newest refresh token and all access tokens.

The name of a refresh token is the hash of its personal token. Its id starts with the id of its family, and its text
ends with it. Each family has one more entry, its anchor, as long as a token of it may be used. A token that is not
stored any more, but whose family has an anchor, was used before. So used tokens need not be kept, and a thief who
refreshes often cannot make the server forget the token that was stolen.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from uuid import uuid4

from runyard.app.audit import note_act
from runyard.app.core import Core
from runyard.app.identity.accounts import REVOKED_FAMILY
from runyard.app.identity.personal_tokens import REFRESH_PREFIX, hash_token, is_usable, make_token_text
from runyard.app.model import Principal, Token
from runyard.app.ports import UnitOfWork

MOST_SESSIONS = 200
"""Limit per user; the oldest are deleted. Scripts that sign in each time must not fill the database."""
MOST_REVOKED = 500
"""Revoked families per user that are remembered; the oldest are deleted."""
TOMBSTONE_LIFE = timedelta(days=7)
"""How long a revoked family is remembered: no access token lives longer (`--access-token-life`)."""

_ANCHOR = ".anchor"
"""Ends the id of the anchor of a family."""


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
    text = f"{make_token_text(REFRESH_PREFIX)}.{family}"
    ends = [now + core.options.refresh_token_life]
    if origin is not None and origin.expires_at is not None:
        ends.append(origin.expires_at)
    token = Token(
        id=f"{family}.{uuid4().hex}",
        user=user,
        kind="refresh",
        hash=hash_token(text),
        name="" if origin is None else origin.hash,
        scopes=tuple(sorted(scopes)),
        created_at=now,
        expires_at=min(ends),
    )
    # The anchor is no token: if its text is sent as one, it counts as used.
    anchor = replace(token, id=f"{family}{_ANCHOR}", hash=_hash_anchor(family), scopes=(), revoked_at=now)
    for entry in (token, anchor):
        await unit.accounts.put_token(entry)
    return text


async def find_refresh_token(unit: UnitOfWork, text: str) -> Token | None:
    """The refresh token of a text; the anchor of its family if the token was used before and is not stored any more."""
    found = await unit.accounts.find_token(hash_token(text))
    return found or await unit.accounts.find_token(_hash_anchor(text.rpartition(".")[2]))


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


async def revoke_reused(core: Core, unit: UnitOfWork, text: str, *, address: str | None) -> str:
    """Revoke the family of a refresh token that is used a second time. Returns the message for the client."""
    token = await find_refresh_token(unit, text)
    if token is None or token.kind != "refresh":
        return "unknown refresh token: sign in again"
    family, now = get_family(token), core.clock.now()
    for one in await unit.accounts.list_tokens(token.user):
        if one.kind == "refresh" and one.revoked_at is None and get_family(one) == family:
            await unit.accounts.delete_token(one.id, user=token.user)
    await unit.accounts.put_token(
        Token(
            id=f"{family}{REVOKED_FAMILY}",
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


def _hash_anchor(family: str) -> str:
    return hash_token(f"anchor of family {family}")


def _hash_tombstone(family: str) -> str:
    return hash_token(f"revoked family {family}")


async def find_origin(unit: UnitOfWork, token: Token) -> Token | None:
    """The personal token that a refresh token was issued for."""
    found = await unit.accounts.find_token(token.name) if token.name else None
    return found if found is not None and found.kind == "personal" and found.user == token.user else None


async def _delete_useless(unit: UnitOfWork, user: str, *, now: datetime) -> None:
    held = [token for token in await unit.accounts.list_tokens(user) if token.kind == "refresh"]
    anchors = [token for token in held if token.id.endswith(_ANCHOR)]
    tombstones = [token for token in held if token.id.endswith(REVOKED_FAMILY)]
    tokens = [token for token in held if not token.id.endswith((_ANCHOR, REVOKED_FAMILY))]
    useless = [token for token in held if token.expires_at is not None and now >= token.expires_at]
    useless += [token for token in tokens if token.revoked_at is not None]
    useless += [token for token in tokens if token.revoked_at is None][MOST_SESSIONS:]
    useless += [*anchors[MOST_SESSIONS:], *tombstones[MOST_REVOKED:]]
    for token_id in {token.id for token in useless}:
        await unit.accounts.delete_token(token_id, user=user)
