"""What every request is served with."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from starlette.requests import HTTPConnection

from runyard.app.core import Core
from runyard.app.identity import Identifier, Signed, TokenIssuer
from runyard.app.model import Json, Principal
from runyard.telemetry import Metrics

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Authenticator(Identifier, Protocol):
    """Who asks, from what the request carries."""

    async def authenticate(self, header: str | None, *, address: str | None) -> Principal:
        """Raises `Unauthenticated`, or `TooMany` for somebody who guesses."""


class Issuer(TokenIssuer, Protocol):
    """Tokens, as clients get them."""

    async def jwks(self) -> Json:
        """The public keys that tokens are signed with."""

    async def issue_run_token(self, run_id: str, project: str, user: str, life: timedelta) -> Signed:
        """A token for a run alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one request, and one principal, may take."""

    body_bytes: int = 4 << 20
    body_seconds: float = 30.0
    """Without a byte more of a body; then the request is given up."""
    list_size: int = 1000
    streams: int = 500
    """Event and log streams at one time, in all."""
    streams_each: int = 50
    requests_per_second: float = 200.0
    """Of one principal, on average; bursts of twice as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerContext:
    """The Core behind the routes, and who guards them."""

    core: Core
    authenticator: Authenticator
    issuer: Issuer
    limits: Limits = field(default_factory=Limits)
    metrics: Metrics = field(default_factory=Metrics)
    is_open: bool = True
    """Without accounts: everybody who reaches the server is its admin."""
    allowed_hosts: frozenset[str] = LOOPBACK_HOSTS
    """In open mode, the only names under which a browser may reach the server."""


def get_context(connection: HTTPConnection) -> ServerContext:
    """What this request is served with."""
    context: ServerContext = connection.app.state.context
    return context


def get_address(connection: HTTPConnection) -> str | None:
    """Where the request comes from; behind a trusted proxy uvicorn has put there where the proxy says it does."""
    return connection.client.host if connection.client is not None else None
