"""Maps aiohttp's exceptions to the errors of `errors`, and enforces deadlines. Only `transport` uses it."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import NoReturn

import aiohttp

from runyard.kube.errors import (
    DeadlineExceeded,
    Disconnected,
    KubeError,
    Stalled,
    Unavailable,
    Unreachable,
    Untrusted,
)

# Not OSError as a whole: a TimeoutError is one, and so is what a caller's own file raises inside our blocks.
TRANSPORT_FAILURES = (aiohttp.ClientError, ConnectionError, ssl.SSLError)


@contextmanager
def typed_errors(request: str, failures: tuple[type[Exception], ...] = TRANSPORT_FAILURES) -> Iterator[None]:
    """Name the request in every KubeError, and turn `failures` into one."""
    try:
        yield
    except KubeError as error:
        error.request = error.request or request
        raise
    except failures as error:
        _raise_in_place_of(error, request)


@contextmanager
def typed_socket_errors(request: str) -> Iterator[None]:
    """The same around a caller's block that uses a WebSocket, where other errors may be the caller's own."""
    try:
        with typed_errors(request, (aiohttp.ClientError,)):
            yield
    except ConnectionError as error:
        # aiohttp raises the bare class when a connection is lost under a write; a subclass is somebody else's.
        if type(error) is not ConnectionError:
            raise
        _raise_in_place_of(error, request)


@asynccontextmanager
async def deadline(seconds: float) -> AsyncIterator[None]:
    """Raise DeadlineExceeded when the block takes longer."""
    try:
        async with asyncio.timeout(seconds) as timer:
            yield
    except TimeoutError as error:
        if not timer.expired():
            raise
        raise DeadlineExceeded(f"no answer within {max(seconds, 0.0):.3g} s") from error


@asynccontextmanager
async def read_deadline(seconds: float | None) -> AsyncIterator[None]:
    """Raise Stalled when one read takes longer (idle timeout)."""
    try:
        async with asyncio.timeout(seconds) as timer:
            yield
    except TimeoutError as error:
        if not timer.expired():
            raise
        raise Stalled(f"no byte within {seconds:.3g} s") from error


def _raise_in_place_of(error: Exception, request: str) -> NoReturn:
    """Raise the typed error, without the original where that shows request headers or a proxy's password."""
    typed = _classify(error)
    typed.request = request
    cause: Exception | None = error
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
    elif isinstance(error, aiohttp.ClientResponseError):
        cause = None
    try:
        raise typed from cause
    finally:
        typed.__context__ = None


def _classify(error: Exception) -> Unavailable:
    """The error for a failure below HTTP; it tells whether anything was sent."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return Untrusted(f"certificate of {error.host}:{error.port}: {error.certificate_error}")
        case aiohttp.ClientConnectorError():
            return Unreachable(f"cannot connect to {error.host}:{error.port}: {error.os_error}")
        case aiohttp.ConnectionTimeoutError():
            return Unreachable("cannot connect: timed out")
        case aiohttp.ClientHttpProxyError():
            return Unreachable(f"the proxy refused: {error.status} {error.message}")
        case aiohttp.WSServerHandshakeError():
            return Unavailable(f"not a WebSocket: {error.message}", status=error.status)
        case aiohttp.ClientResponseError():
            return Unavailable(f"the answer is not HTTP: {' '.join(error.message.split())}")
        case _:
            return Disconnected(f"the connection was cut: {str(error) or type(error).__name__}")
