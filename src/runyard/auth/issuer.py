"""Signs and verifies tokens: access tokens of users, and the tokens of runs."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from joserfc import jws, jwt
from joserfc.errors import JoseError

from runyard.app.core import Core
from runyard.app.errors import Unauthenticated
from runyard.app.identity import Grant, Signed
from runyard.app.model import Json, Run
from runyard.auth.credential_cache import LONGEST_SECONDS, CredentialCache
from runyard.auth.signing_keys import ALGORITHM, KEY_LIFE, SigningKey, SigningKeys

AUDIENCE = "runyard"
ACCESS_LIFE = timedelta(hours=8)
LONGEST_RUN = timedelta(days=30)
"""Maximum lifetime of a run's token. It is not renewed; the engine of a longer run issues another."""
CLOCKS_APART_SECONDS = 60
MOST_CHARACTERS = 8192

_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_WRONG = "the token was not issued by this server"
_OVER = "the token has expired: sign in again, or refresh it"

Claims = Mapping[str, Any]


class Issuer:
    """`app.identity.TokenIssuer`. The `iss` claim is the server's endpoint."""

    def __init__(
        self,
        core: Core,
        *,
        audience: str = AUDIENCE,
        access_life: timedelta = ACCESS_LIFE,
        key_life: timedelta = KEY_LIFE,
    ) -> None:
        self._core = core
        self._audience = audience
        self._access_life = access_life
        self._keys = SigningKeys(core, longest_token=max(access_life, LONGEST_RUN), key_life=key_life)
        self._verified: CredentialCache[Claims] = CredentialCache()

    async def prepare(self) -> None:
        """Load or create the signing keys. Checks that the vault can open them. Never inside a unit of work."""
        await self._keys.prepare()

    def sign(self, grant: Grant) -> Signed:
        """Sign an access token of a user."""
        end = self._core.clock.now() + self._access_life
        if grant.ends_by is not None:
            end = min(end, grant.ends_by)
        claims: Json = {"preferred_username": grant.user}
        if grant.client_id:
            claims["client_id"] = grant.client_id
        if grant.scopes:
            claims["scope"] = " ".join(sorted(grant.scopes))
        if grant.origin is not None:
            claims["sid"] = grant.origin.hash
        if grant.family is not None:
            claims["family"] = grant.family
        return self._sign(grant.user, claims, end=end)

    async def issue(self, grant: Grant) -> Signed:
        """Prepare and sign an access token of a user; never inside a unit of work."""
        await self.prepare()
        return self.sign(grant)

    async def issue_run_token(self, run: Run, life: timedelta) -> Signed:
        """Sign a token of one run. It expires after `life` or 30 days, or with the run, whichever comes first.

        It is bound to the run's uid: a later run of the same id does not make it valid again.
        """
        await self.prepare()
        end = self._core.clock.now() + min(life, LONGEST_RUN)
        claims = {"run_id": run.id, "run_uid": run.uid, "project": run.project}
        return self._sign(run.user, {"preferred_username": run.user, **claims}, end=end)

    async def jwks(self) -> Json:
        """The public keys (JWKS), to verify our tokens elsewhere."""
        return {"keys": await self._keys.list_public()}

    async def verify(self, text: str) -> Claims:
        """Verify signature and expiry of a token; returns its claims. Raises `Unauthenticated`."""
        key = self._verified.make_key(text)
        claims = self._verified.find(key)
        if claims is None:
            claims = await self._verify_signature(text)
            self._verified.put(key, claims, seconds=LONGEST_SECONDS)
        self._check_times(claims)
        return claims

    def _sign(self, user: str, claims: Json, *, end: datetime) -> Signed:
        signer = self._keys.current
        payload = {
            "iss": self._core.options.endpoint,
            "aud": self._audience,
            "sub": user,
            "iat": int(self._core.clock.now().timestamp()),
            "exp": int(end.timestamp()),
            "jti": uuid4().hex,
            **claims,
        }
        text = jwt.encode({"alg": ALGORITHM, "kid": signer.id}, payload, signer.key, algorithms=[ALGORITHM])
        return Signed(text, datetime.fromtimestamp(payload["exp"], UTC))

    async def _verify_signature(self, text: str) -> Claims:
        if len(text) > MOST_CHARACTERS or not _COMPACT.fullmatch(text):
            raise Unauthenticated(_WRONG)
        signer = await self._find_signer(text)
        if signer is None:
            raise Unauthenticated(_WRONG)
        try:
            claims = jwt.decode(text, signer.key, algorithms=[ALGORITHM]).claims
        except (JoseError, ValueError):
            raise Unauthenticated(_WRONG) from None
        named = claims.get("iss"), claims.get("aud")
        texts = [claims.get(name) for name in ("sub", "jti")]
        if named != (self._core.options.endpoint, self._audience) or not all(isinstance(one, str) for one in texts):
            raise Unauthenticated(_WRONG)
        return claims

    async def _find_signer(self, text: str) -> SigningKey | None:
        try:
            header = jws.extract_compact(text.encode()).headers()
        except (JoseError, ValueError, RecursionError):
            return None
        key_id = header.get("kid")
        if header.get("alg") != ALGORITHM or not isinstance(key_id, str):
            return None
        return await self._keys.find(key_id)

    def _check_times(self, claims: Claims) -> None:
        now = self._core.clock.now().timestamp()
        start, end = claims.get("iat"), claims.get("exp")
        if not isinstance(start, int) or not isinstance(end, int) or start > now + CLOCKS_APART_SECONDS:
            raise Unauthenticated(_WRONG)
        if now >= end:
            raise Unauthenticated(_OVER)
