"""Middleware that adds the headers of every response and, in open mode, refuses requests made by web pages.

Without accounts a foreign page in the user's browser could drive the server. Three checks prevent it: the Host header
must be an allowed one (DNS rebinding), Origin must be our own (CSRF), and so must Sec-Fetch-Site where a browser sends
no Origin (images, links). Programs send neither and pass.
"""

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runyard import __version__
from runyard.api.context import ServerContext
from runyard.api.error_responses import error_response
from runyard.spec.problems import shorten

API_LEVEL = "16"
"""The API level that DigitalHub's SDKs 0.13 to 0.16 all accept."""

_OUR_SITES = (None, "same-origin", "none")
"""Values of Sec-Fetch-Site: programs send none, our pages `same-origin`, a typed URL `none`."""


class OriginGuard:
    """The middleware; pure ASGI, since every request pays for it."""

    def __init__(self, app: ASGIApp, *, context: ServerContext) -> None:
        self._app = app
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it. The body of a response to HEAD is dropped here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Api-Version"] = __version__
                headers["X-Api-Level"] = API_LEVEL
                headers["X-Content-Type-Options"] = "nosniff"
                headers.setdefault("Cache-Control", "no-cache")
            elif scope["method"] == "HEAD":
                message["body"] = b""
            await send(message)

        if self._context.is_open and (reason := self._find_refusal(Headers(scope=scope))):
            await error_response(403, reason, code="origin")(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _find_refusal(self, headers: Headers) -> str | None:
        hosts = self._context.allowed_hosts
        host = _strip_port(headers.get("host", ""))
        if host not in hosts:
            return f"this server has no accounts; its host must be {' or '.join(sorted(hosts))}, not `{shorten(host)}`"
        origin = headers.get("origin")
        if origin is not None and _find_netloc(origin) != headers.get("host"):
            return f"this server has no accounts; it refuses requests from web pages of `{shorten(origin)}`"
        site = headers.get("sec-fetch-site")
        if site not in _OUR_SITES:
            return f"this server has no accounts; it refuses requests from pages of other sites (`{shorten(site)}`)"
        return None


def _find_netloc(origin: str) -> str | None:
    """Host and port of an Origin; None if it is not a valid one."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _strip_port(host: str) -> str:
    name, _, port = host.rpartition(":")
    return (name if port.isdigit() else host).lower()
