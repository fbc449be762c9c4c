"""How a connection failed: in words, and whether another attempt can help."""

import ipaddress
import socket
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx2

from runyard.sdk.calls import Answer
from runyard.sdk.errors import CertificateError, RunyardError, ServerUnreachable, UnexpectedResponse, make_api_error

_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_UNKNOWN_HOST = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))


def was_sent(error: httpx2.TransportError) -> bool:
    """Whether the request may have reached the server."""
    return not isinstance(error, _NOT_SENT)


def is_permanent(error: httpx2.TransportError) -> bool:
    """Whether another attempt would fail in the same way."""
    causes = tuple(_iter_causes(error))
    is_unknown = any(isinstance(cause, socket.gaierror) and cause.errno in _UNKNOWN_HOST for cause in causes)
    return is_unknown or _find_certificate_error(error) is not None or isinstance(error, httpx2.UnsupportedProtocol)


def make_connection_error(error: httpx2.TransportError, endpoint: str) -> ServerUnreachable:
    """The error in one line: the endpoint, what happened, and what to check."""
    if (cause := _find_certificate_error(error)) is not None:
        reason = getattr(cause, "verify_message", "") or getattr(cause, "reason", "") or str(cause)
        return CertificateError(
            f"{endpoint}: the server's certificate is not trusted: {reason}; "
            "name the file of its authority in SSL_CERT_FILE, or check the clock of this machine"
        )
    if isinstance(error, httpx2.ProxyError):
        return ServerUnreachable(f"{endpoint}: the proxy refused the connection: {error}; see HTTPS_PROXY and NO_PROXY")
    if isinstance(error, httpx2.TimeoutException):
        return ServerUnreachable(f"{endpoint}: the server did not answer in time")
    if any(isinstance(cause, ConnectionRefusedError) for cause in _iter_causes(error)):
        return ServerUnreachable(f"{endpoint}: connection refused; is the server running?")
    words = next((str(cause) for cause in _iter_causes(error) if str(cause)), type(error).__name__)
    return ServerUnreachable(f"{endpoint}: {words[:300]}")


def make_answer_error(answer: Answer) -> RunyardError:
    """The error of a response that is none of 2xx."""
    if 300 <= answer.status < 400:
        target = answer.headers.get("location", "nowhere")[:200]
        return UnexpectedResponse(f"the server redirects to {target}; set the endpoint to that address")
    return make_api_error(answer.status, answer.find_json(), text=answer.text)


def is_loopback(endpoint: str) -> bool:
    """Whether the server is on this machine, where no proxy is of use."""
    host = urlsplit(endpoint).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _find_certificate_error(error: BaseException) -> BaseException | None:
    return next((cause for cause in _iter_causes(error) if isinstance(cause, ssl.SSLCertVerificationError)), None)


def _iter_causes(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting and len(seen) < 20:
        cause = waiting.pop(0)
        if cause is None or cause in seen:
            continue
        seen.append(cause)
        yield cause
        waiting += [cause.__cause__, cause.__context__]
        waiting += cause.exceptions if isinstance(cause, BaseExceptionGroup) else ()
