"""Authenticate a request by its Authorization header.

Every request reads the account, the personal token, the run and its user's role from the store, so that disabling,
revoking, ending and unsharing take effect at once on every replica.
"""

from datetime import UTC, datetime

from runyard.app.core import Core
from runyard.app.errors import Unauthenticated
from runyard.app.identity import (
    PERSONAL_PREFIX,
    REFRESH_PREFIX,
    Identity,
    find_role,
    hash_token,
    is_family_revoked,
    is_usable,
    note_token_use,
)
from runyard.app.model import Account, Principal, Token
from runyard.app.ports import UnitOfWork
from runyard.auth.failure_limiter import FailureLimiter
from runyard.auth.headers import Basic, parse_header
from runyard.auth.issuer import Claims, Issuer
from runyard.auth.password_check import PasswordCheck
from runyard.auth.passwords import Passwords
from runyard.domain.access import SCOPES, Permission, allows
from runyard.domain.lifecycle import State, is_final

ANONYMOUS = "anonymous"
"""The principal of every request on a server without accounts."""
_GONE = "the account of this token is gone or disabled"
_REUSED = "a refresh token of this session was used twice, so the session was ended: sign in again"
_REVOKED = "the personal token behind this token has expired or was revoked"


class Authenticator:
    """`app.identity.Identifier`; authenticates every request."""

    def __init__(
        self,
        core: Core,
        *,
        issuer: Issuer,
        passwords: Passwords,
        is_open: bool = False,
        limiter: FailureLimiter | None = None,
    ) -> None:
        self._core = core
        self._issuer = issuer
        self.is_open = is_open
        """Whether every client is an admin without sign-in."""
        self._password_check = PasswordCheck(core, passwords=passwords, limiter=limiter or FailureLimiter())

    def require_accounts(self) -> None:
        """Leave open mode: from now on clients must sign in."""
        self.is_open = False

    async def authenticate(self, header: str | None, *, address: str | None) -> Principal:
        """The principal of a request. Raises `Unauthenticated` or `TooMany`. On an open server everyone is an admin."""
        if self.is_open:
            return Principal(name=ANONYMOUS, is_admin=True, via="open", address=address)
        given = parse_header(header)
        if isinstance(given, Basic):
            account = await self._password_check.find_account(given, address=address)
            return Principal(name=account.name, is_admin=account.is_admin, via="password", address=address)
        return (await self.identify(given.text, address=address)).principal

    async def identify(self, token: str, *, address: str | None) -> Identity:
        """The identity of a token. Raises `Unauthenticated`."""
        if self.is_open:
            raise Unauthenticated("this server runs without accounts; no token is needed")
        if token.startswith(PERSONAL_PREFIX):
            return await self._identify_personal(token, address=address)
        if token.startswith(REFRESH_PREFIX):
            raise Unauthenticated("this is a refresh token: exchange it at the token endpoint for an access token")
        claims = await self._issuer.verify(token)
        if "run_id" in claims:
            return await self._identify_run(claims, address=address)
        return await self._identify_user(claims, address=address)

    async def _identify_personal(self, text: str, *, address: str | None) -> Identity:
        async with self._core.store.begin(is_read_only=True) as unit:
            token = await unit.accounts.find_token(hash_token(text))
            if token is None or token.kind != "personal":
                raise Unauthenticated("the personal token is unknown or was revoked")
            account = await _require_account(unit, token.user, since=token.created_at)
        if not is_usable(token, now=self._core.clock.now()):
            raise Unauthenticated("the personal token has expired or was revoked: create a new one")
        await note_token_use(self._core, token)
        return Identity(
            principal=Principal(
                name=account.name,
                is_admin=account.is_admin,
                scopes=_limit(token.scopes),
                via="token",
                address=address,
            ),
            origin=token,
            ends_at=token.expires_at,
        )

    async def _identify_user(self, claims: Claims, *, address: str | None) -> Identity:
        async with self._core.store.begin(is_read_only=True) as unit:
            account = await _require_account(unit, claims["sub"], since=_read_time(claims["iat"]))
            origin = None if "sid" not in claims else await self._require_personal(unit, claims["sid"])
            family = claims.get("family")
            if family is not None and await is_family_revoked(unit, family):
                raise Unauthenticated(_REUSED)
        return Identity(
            principal=Principal(
                name=account.name,
                is_admin=account.is_admin,
                scopes=_limit(claims.get("scope", "").split()),
                via="jwt",
                address=address,
            ),
            origin=origin,
            ends_at=_read_time(claims["exp"]),
            family=family,
        )

    async def _identify_run(self, claims: Claims, *, address: str | None) -> Identity:
        run_id, project = claims["run_id"], claims["project"]
        async with self._core.store.begin(is_read_only=True) as unit:
            account = await _require_account(unit, claims["sub"], since=_read_time(claims["iat"]))
            run = await unit.runs.find(run_id, project=project)
            if run is None or is_final(State(run.state)):
                raise Unauthenticated(f"run {run_id} has ended, so its token is no longer valid")
            if claims.get("run_uid") != run.uid:
                raise Unauthenticated("the token was issued for an earlier run of this id, so it is no longer valid")
            await _check_role(unit, account, project)
        # Never an admin, even if an admin started the run.
        return Identity(
            principal=Principal(
                name=account.name, run_id=run_id, run_uid=run.uid, project=project, via="run", address=address
            ),
            ends_at=_read_time(claims["exp"]),
        )

    async def _require_personal(self, unit: UnitOfWork, token_hash: str) -> Token:
        token = await unit.accounts.find_token(token_hash)
        if token is None or not is_usable(token, now=self._core.clock.now()):
            raise Unauthenticated(_REVOKED)
        return token


async def _require_account(unit: UnitOfWork, name: str, *, since: datetime) -> Account:
    """Reject tokens issued before this account existed."""
    account = await unit.accounts.find(name)
    if account is None or account.is_disabled or since < account.created_at.replace(microsecond=0):
        raise Unauthenticated(_GONE)
    return account


async def _check_role(unit: UnitOfWork, account: Account, project: str) -> None:
    """Reject the token of a run whose user may no longer submit runs in its project."""
    user = Principal(name=account.name, is_admin=account.is_admin)
    if not allows(await find_role(unit, user, project), Permission.WRITE):
        raise Unauthenticated(f"{account.name} may no longer run things in project {project}, nor may its runs")


def _limit(scopes: tuple[str, ...] | list[str]) -> frozenset[str] | None:
    return frozenset(scopes) & SCOPES.keys() or None


def _read_time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
