"""Personal access tokens: shown once, stored as a hash, limited by scopes and lifetime, revocable."""

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import uuid4

from runyard.app.audit import note_act
from runyard.app.core import Core
from runyard.app.errors import Forbidden, Missing, NotPossible
from runyard.app.identity.accounts import lock_accounts
from runyard.app.model import Principal, Token
from runyard.app.ports import UnitOfWork
from runyard.domain.access import SCOPES, Permission
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused, find_nearest

PERSONAL_PREFIX = "ryp_"
REFRESH_PREFIX = "ryr_"
MOST_TOKENS = 100
MOST_NAME_CHARACTERS = 200
NOTED_EVERY = timedelta(hours=1)
"""Precision of `last_used_at`."""

HARMLESS_SCOPES = frozenset({"openid", "profile", "email", "credentials", "offline_access"})
"""Scopes that DigitalHub clients ask for; they limit nothing."""
_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class CreatedToken:
    """A token and its text, which cannot be read again."""

    token: Token
    text: str = field(repr=False)


async def create_personal_token(
    core: Core, who: Principal, *, name: str = "", scopes: Iterable[str] = (), life: timedelta | None = None
) -> CreatedToken:
    """A token of who asks, signed in by password: one made with a token would outlive it. Raises `Forbidden`."""
    _require_password(who)
    longest = core.options.personal_token_life
    life = longest if life is None else life
    wanted = _check_wanted(name, scopes, life=life, longest=longest)
    now = core.clock.now()
    text = make_token_text(PERSONAL_PREFIX)
    token = Token(
        id=uuid4().hex,
        user=who.name,
        kind="personal",
        hash=hash_token(text),
        name=name,
        scopes=tuple(sorted(set(wanted))),
        created_at=now,
        expires_at=now + life,
    )
    async with core.store.begin() as unit:
        await lock_accounts(unit)
        await _check_account(unit, who)
        await unit.accounts.put_token(token)
        ends_at = (now + life).isoformat()
        details = {"name": name, "scopes": list(token.scopes), "expires_at": ends_at}
        await note_act(core, unit, who, "token.create", of=("token", token.id), details=details)
        await unit.commit()
    return CreatedToken(token, text)


async def list_personal_tokens(core: Core, who: Principal) -> Sequence[Token]:
    """The principal's personal tokens, newest first, without their hashes."""
    _require_user(who)
    async with core.store.begin(is_read_only=True) as unit:
        tokens = await unit.accounts.list_tokens(who.name)
    return [replace(token, hash="") for token in tokens if token.kind == "personal"]


async def revoke_personal_token(core: Core, who: Principal, token_id: str) -> None:
    """Revoke a token and everything issued for it. Raises `Missing`."""
    _require_own(who)
    async with core.store.begin() as unit:
        await lock_accounts(unit)
        tokens = await unit.accounts.list_tokens(who.name)
        token = next((one for one in tokens if one.id == token_id and one.kind == "personal"), None)
        if token is None:
            raise Missing("token", token_id)
        for one in tokens:
            if one.id == token_id or (one.kind == "refresh" and one.name == token.hash):
                await unit.accounts.delete_token(one.id, user=who.name)
        await note_act(core, unit, who, "token.revoke", of=("token", token_id), details={"name": token.name})
        await unit.commit()


async def note_token_use(core: Core, token: Token) -> None:
    """Record that a token was used, at most once per `NOTED_EVERY`."""
    now = core.clock.now()
    if token.last_used_at is not None and now - token.last_used_at < NOTED_EVERY:
        return
    async with core.store.begin() as unit:
        # Under the lock, so that a token that is being revoked is not stored again.
        await lock_accounts(unit)
        stored = await unit.accounts.find_token(token.hash)
        if stored is not None:
            await unit.accounts.put_token(replace(stored, last_used_at=now))
            await unit.commit()


def make_token_text(prefix: str) -> str:
    """A new random token. The prefix identifies it for people and secret scanners."""
    return prefix + secrets.token_urlsafe(_SECRET_BYTES)


def hash_token(text: str) -> str:
    """The hash that is stored and looked up. The text is random, so a plain hash is enough."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def narrow(limits: Iterable[str] | None, wanted: Iterable[str]) -> frozenset[str]:
    """The scopes of a token issued for one with those limits; empty is no limit. Raises `Forbidden`."""
    held = frozenset(limits or ()) & SCOPES.keys()
    asked = frozenset(wanted) & SCOPES.keys()
    if not held or not asked:
        return held or asked
    reach: frozenset[Permission] = frozenset().union(*(SCOPES[scope] for scope in held))
    if beyond := sorted(scope for scope in asked if not SCOPES[scope] <= reach):
        message = f"limited to {', '.join(sorted(held))}; {', '.join(beyond)} exceeds that limit"
        raise Forbidden(message)
    return asked


def is_usable(token: Token, *, now: datetime) -> bool:
    """Whether it is neither revoked nor expired."""
    return token.revoked_at is None and (token.expires_at is None or now < token.expires_at)


def _check_wanted(name: str, scopes: Iterable[str], *, life: timedelta, longest: timedelta) -> tuple[str, ...]:
    wanted = tuple(scopes)
    known = [*SCOPES, *sorted(HARMLESS_SCOPES)]
    # An unknown scope limits nothing: a typo would create a token without limits.
    problems = [
        Problem(
            Code.SCOPE_UNKNOWN,
            ("scopes", position),
            "unknown scope",
            value=scope,
            allowed=", ".join(known),
            suggestion=find_nearest(scope, known),
        )
        for position, scope in enumerate(wanted)
        if scope not in known
    ]
    if len(name) > MOST_NAME_CHARACTERS:
        message = f"has {len(name)} characters"
        problems.append(Problem(Code.NAME_LONG, ("name",), message, allowed=f"at most {MOST_NAME_CHARACTERS}"))
    if not timedelta(0) < life <= longest:
        message = "too long" if life > longest else "must be positive"
        allowed = f"more than 0 and at most {longest.days}"
        problems.append(Problem(Code.TOKEN_LIFE, ("days",), message, value=life.days, allowed=allowed))
    if problems:
        raise Refused(problems)
    return wanted


def _require_user(who: Principal) -> None:
    if who.run_id is not None:
        raise Forbidden(f"the token of run {who.run_id} has no personal tokens; its user has")
    if who.via == "open":
        raise NotPossible(Code.TOKEN_OPEN, "this server runs without accounts; no token is needed")


def _require_password(who: Principal) -> None:
    """The command line acts for a user as the system."""
    _require_user(who)
    if who.via not in ("password", "system"):
        message = "to create a personal token, sign in with a password instead of a token, or use `runyard user token`"
        raise Forbidden(message)


def _require_own(who: Principal) -> None:
    """Revoking is a change, so a token with the scope `read` is not enough."""
    _require_user(who)
    limits = (who.scopes or frozenset()) & SCOPES.keys()
    if limits and not any(Permission.WRITE in SCOPES[scope] for scope in limits):
        message = (
            f"revoking tokens needs a token with the scope write or admin; this one is limited to {', '.join(limits)}"
        )
        raise Forbidden(message)


async def _check_account(unit: UnitOfWork, who: Principal) -> None:
    account = await unit.accounts.find(who.name)
    if account is None or account.is_disabled:
        raise NotPossible(Code.ACCOUNT_GONE, f"the account {who.name} is gone or disabled")
    held = [token for token in await unit.accounts.list_tokens(who.name) if token.kind == "personal"]
    if len(held) >= MOST_TOKENS:
        message = f"{who.name} has {len(held)} personal tokens, which is the limit: revoke some first"
        raise NotPossible(Code.TOKEN_TOO_MANY, message)
