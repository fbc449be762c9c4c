"""How a connection failed: in words, and whether another attempt can help."""

import ipaddress
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from runyard.sdk.calls import Answer
from runyard.sdk.errors import (
    CertificateError,
    ConfigurationError,
    RunyardError,
    ServerUnreachable,
    UnexpectedResponse,
    make_api_error,
)

_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_PROXY_ADVICE = "see HTTPS_PROXY, HTTP_PROXY and NO_PROXY"
_REFUSED = "connection refused"
_NOT_ENCRYPTED = "the server does not speak TLS there"
_ADVICE = {_REFUSED: "; is the server running?", _NOT_ENCRYPTED: "; is its address http://…?"}
_NO_TLS = (
    *("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_MESSAGE", "HTTP_REQUEST"),
    "UNEXPECTED_EOF_WHILE_READING",
)
"""OpenSSL's reasons why a handshake failed with something that does not answer one."""
_OUT_OF_TIME = (9, 10)
"""OpenSSL's codes of certificates that are not valid yet or no more."""
_OF_ANOTHER = (62, 64)
"""Its codes of certificates for another host or address."""
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
        reason = (getattr(cause, "verify_message", "") or getattr(cause, "reason", "") or str(cause)).rstrip(".")
        advice = _advise_on_certificate(getattr(cause, "verify_code", None))
        return CertificateError(f"{endpoint}: the server's certificate is not trusted: {reason}; {advice}")
    proxy = find_proxy(endpoint)
    if isinstance(error, httpx2.ProxyError):
        return ServerUnreachable(f"{endpoint}: the proxy {proxy} refused the connection: {error}; {_PROXY_ADVICE}")
    if isinstance(error, httpx2.TimeoutException):
        through = "" if proxy is None else f" through the proxy {proxy}"
        return ServerUnreachable(f"{endpoint}: the server did not answer in time{through}")
    words = _describe_failure(error, urlsplit(proxy or endpoint).hostname or "")
    if proxy is not None and words == _NOT_ENCRYPTED:
        message = f"what answers through the proxy {proxy} does not speak TLS"
        return ServerUnreachable(f"{endpoint}: {message}; {_PROXY_ADVICE}")
    if proxy is not None and not was_sent(error):
        return ServerUnreachable(f"{endpoint}: the proxy {proxy} cannot be reached: {words}; {_PROXY_ADVICE}")
    return ServerUnreachable(f"{endpoint}: {words}{_ADVICE.get(words, '')}")


def make_answer_error(answer: Answer, endpoint: str) -> RunyardError:
    """The error of a response that is none of 2xx."""
    if 300 <= answer.status < 400:
        target = answer.headers.get("location", "nowhere")[:200]
        return UnexpectedResponse(f"the server redirects to {target}; set the endpoint to that address")
    error = make_api_error(answer.status, answer.find_json(), text=answer.text)
    return UnexpectedResponse(f"{error}{advise_on_answer(endpoint)}") if type(error) is UnexpectedResponse else error


def advise_on_answer(endpoint: str) -> str:
    """What to check if a response is not from a Runyard server."""
    proxy = find_proxy(endpoint)
    return (
        f"; check the address {endpoint}" if proxy is None else f"; it came through the proxy {proxy}; {_PROXY_ADVICE}"
    )


@contextmanager
def report_certificate_file() -> Iterator[None]:
    """Say which variable names a file of certificates that cannot be read."""
    try:
        yield
    except (OSError, ssl.SSLError) as error:
        name = next((name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)), None)
        where = "the trusted certificates" if name is None else f"{name}={os.environ[name]}"
        raise ConfigurationError(f"{where}: cannot be read: {error.strerror or error}") from None


def find_proxy(endpoint: str) -> str | None:
    """The proxy of the environment that requests to a server go through, without its password."""
    parts = urlsplit(endpoint)
    if is_loopback(endpoint) or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    proxies = getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all")
    if not found:
        return None
    scheme, _, rest = found.rpartition("://")
    return f"{scheme or 'http'}://{rest.rpartition('@')[2]}"


def is_loopback(endpoint: str) -> bool:
    """Whether the server is on this machine, where no proxy is of use."""
    host = urlsplit(endpoint).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _describe_failure(error: httpx2.TransportError, host: str) -> str:
    """What happened, in words."""
    for cause in _iter_causes(error):
        if isinstance(cause, ConnectionRefusedError):
            return _REFUSED
        if isinstance(cause, socket.gaierror):
            return f"the host {host} is unknown" if cause.errno in _UNKNOWN_HOST else "no answer from the name server"
        if isinstance(cause, ssl.SSLError) and cause.reason in _NO_TLS:
            return _NOT_ENCRYPTED
    return next((str(cause) for cause in _iter_causes(error) if str(cause)), type(error).__name__)[:300].rstrip(".")


def _advise_on_certificate(verify_code: int | None) -> str:
    if verify_code in _OUT_OF_TIME:
        now = datetime.now(UTC)
        return f"check the clock of this machine, which says {now:%Y-%m-%d %H:%M} UTC, or have the certificate renewed"
    if verify_code in _OF_ANOTHER:
        return "use an address that the certificate is for"
    clock = ", or check the clock of this machine" if verify_code is None else ""
    return f"name the file of its authority in SSL_CERT_FILE{clock}"


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
