"""Who asks: the subject of a client certificate that the cluster's authority signed, or whom a TokenReview names.

There is no anonymous user. A certificate goes before a token, as on a kubelet.
"""

import asyncio
import hashlib
import secrets
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runyard.kube import Client, KubeError
from runyard.kube.objects import encode
from runyard.kube.resources import TOKEN_REVIEWS
from runyard.node.kubelet_api.expiring_cache import ExpiringCache
from runyard.node.kubelet_api.refusal import Refusal

TOKEN_SECONDS = 120.0
"""How long a token that was accepted is believed, as on a kubelet: a revoked one may work for so long."""
UNKNOWN_TOKEN_SECONDS = 10.0
MOST_TOKENS = 4096
_REVIEWS_AT_A_TIME = 16
_REVIEW_SECONDS = 10.0
_MOST_GROUPS = 1000
_AUTHENTICATED = "system:authenticated"
_UNAUTHENTICATED = "Unauthorized: send a client certificate of this cluster, or a bearer token"

PeerCertificate = Mapping[str, Any]
"""A verified certificate, as `SSLObject.getpeercert` describes it."""


@dataclass(frozen=True, slots=True)
class User:
    """Somebody whom the cluster knows."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Authentication:
    """Decides who sent a request. Tokens are kept as keyed digests only."""

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._known: ExpiringCache[bytes, User | _Unknown] = ExpiringCache(most=MOST_TOKENS)
        self._reviews = asyncio.Semaphore(_REVIEWS_AT_A_TIME)

    async def authenticate(self, certificate: PeerCertificate | None, authorization: str | None) -> User:
        """The user; Refusal 401 when nobody vouches for them, 503 when the cluster cannot be asked."""
        if certificate:
            user = user_from_certificate(certificate, now=self._clock())
            if user is not None:
                return user
        token = find_bearer_token(authorization)
        if token is None:
            raise Refusal(401, _UNAUTHENTICATED)
        digest = hashlib.blake2b(token.encode(), key=self._key, digest_size=32).digest()
        known = self._known.find(digest)
        if known is None:
            known = await self._review(token)
            seconds = TOKEN_SECONDS if isinstance(known, User) else UNKNOWN_TOKEN_SECONDS
            self._known.put(digest, known, seconds=seconds)
        if isinstance(known, User):
            return known
        raise Refusal(401, _UNAUTHENTICATED)

    async def _review(self, token: str) -> "User | _Unknown":
        review = {"apiVersion": TOKEN_REVIEWS.api_version, "kind": TOKEN_REVIEWS.kind, "spec": {"token": token}}
        try:
            async with self._reviews:
                answer = await self._client.send_encoded(
                    "POST", TOKEN_REVIEWS, encode(review), is_idempotent=True, deadline_seconds=_REVIEW_SECONDS
                )
        except KubeError as error:
            raise Refusal(503, f"the token cannot be checked: {error}") from error
        return user_from_review(answer) or _Unknown()


class _Unknown:
    """Stands for a token that the cluster does not know."""


def user_from_certificate(certificate: PeerCertificate, *, now: float) -> User | None:
    """The user that a verified certificate names, as the apiserver reads it; None if it is over or names nobody.

    The time is checked again because a connection may live longer than the certificate that opened it.
    """
    if ssl.cert_time_to_seconds(certificate["notAfter"]) <= now:
        return None
    attributes = [attribute for name in certificate.get("subject", ()) for attribute in name]
    names = [value for key, value in attributes if key == "commonName"]
    if not names or not names[-1]:
        return None
    groups = [value for key, value in attributes if key == "organizationName"]
    return User(name=names[-1], groups=(*groups, _AUTHENTICATED))


def user_from_review(review: Mapping[str, Any]) -> User | None:
    """The user that a TokenReview names; None if it says that the token is not known."""
    status = review.get("status") or {}
    user = status.get("user") or {}
    if status.get("authenticated") is not True or not user.get("username"):
        return None
    groups: Sequence[str] = user.get("groups") or ()
    extra: Mapping[str, Sequence[str]] = user.get("extra") or {}
    return User(
        name=user["username"],
        uid=user.get("uid") or "",
        groups=tuple(groups[:_MOST_GROUPS]),
        extra=tuple((key, tuple(values)) for key, values in sorted(extra.items())),
    )


def find_bearer_token(authorization: str | None) -> str | None:
    """The token of an Authorization header; None if there is none."""
    scheme, _, token = (authorization or "").strip().partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and token and token.isascii() else None
