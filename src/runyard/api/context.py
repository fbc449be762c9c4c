"""The server context: the Core, its guards and its limits, as every request finds them."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from starlette.requests import HTTPConnection

from runyard.app.core import Core
from runyard.app.identity import Identifier, Signed, TokenIssuer
from runyard.app.model import Json, Principal, Run
from runyard.telemetry import Metrics

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Authenticator(Identifier, Protocol):
    """Authenticates requests."""

    @property
    def is_open(self) -> bool:
        """Open mode, without accounts: everybody who reaches the server is its admin."""

    def require_accounts(self) -> None:
        """Leave open mode."""

    async def authenticate(self, header: str | None, *, address: str | None) -> Principal:
        """The principal of an Authorization header; raises `Unauthenticated`, or `TooMany` for repeated failures."""


class Issuer(TokenIssuer, Protocol):
    """Issues tokens."""

    async def jwks(self) -> Json:
        """The public keys (JWKS) that verify our tokens."""

    async def issue_run_token(self, run: Run, life: timedelta) -> Signed:
        """A token that acts for one run, and for no later run of the same id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits per request and per principal."""

    body_bytes: int = 4 << 20
    body_seconds: float = 30.0
    """Idle timeout of a request body: without another byte for so long, 408."""
    body_total_seconds: float = 60.0
    """Deadline of a whole request body, besides the time for its size; afterwards 408."""
    list_size: int = 1000
    page_bytes: int = 16 << 20
    """Size of the entities in a page of a list, as they are stored. A page has at least one entity."""
    streams: int = 500
    """Open event and log streams in all."""
    streams_each: int = 50
    """Open streams per principal."""
    requests_per_second: float = 200.0
    """Rate limit per principal; bursts of twice as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerContext:
    """Everything a request needs: one per process, in `app.state.context`."""

    core: Core
    authenticator: Authenticator
    issuer: Issuer
    limits: Limits = field(default_factory=Limits)
    metrics: Metrics = field(default_factory=Metrics)
    allowed_hosts: frozenset[str] = LOOPBACK_HOSTS
    """In open mode, the host names that requests may address: the defence against DNS rebinding."""

    @property
    def is_open(self) -> bool:
        """Whether requests need no sign-in. It ends while the server runs when the first account is created."""
        return self.authenticator.is_open


def get_context(connection: HTTPConnection) -> ServerContext:
    """The context of the server that handles this request."""
    context: ServerContext = connection.app.state.context
    return context


def get_address(connection: HTTPConnection) -> str | None:
    """The address of the client; behind a trusted proxy, uvicorn takes it from the forwarded headers."""
    return connection.client.host if connection.client is not None else None
