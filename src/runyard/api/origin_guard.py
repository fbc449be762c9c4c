"""Middleware that adds the headers of every response and, in open mode, refuses requests made by web pages.

Without accounts a foreign page in the user's browser could drive the server. Three checks prevent it: the Host header
must be an allowed one (DNS rebinding), Origin must be our own (CSRF), and so must Sec-Fetch-Site where a browser sends
no Origin (images, links). Programs send neither and pass.

With accounts, foreign pages have no credentials, and no script of theirs can read a response. WebSockets are the
exception: browsers let every page open them, without a preflight request, and add a password that they remember
(cross-site WebSocket hijacking). So WebSockets from foreign pages are always refused.
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
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                headers = MutableHeaders(scope=message)
                headers["X-Api-Version"] = __version__
                headers["X-Api-Level"] = API_LEVEL
                headers["X-Content-Type-Options"] = "nosniff"
                headers.setdefault("Cache-Control", "no-cache")
            elif scope["type"] == "http" and scope["method"] == "HEAD":
                message["body"] = b""
            await send(message)

        reason = self._find_refusal(Headers(scope=scope), is_websocket=scope["type"] == "websocket")
        if reason is not None:
            await error_response(403, reason, code="origin")(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _find_refusal(self, headers: Headers, *, is_websocket: bool) -> str | None:
        if self._context.is_open:
            return self._find_open_refusal(headers)
        return self._find_websocket_refusal(headers) if is_websocket else None

    def _find_websocket_refusal(self, headers: Headers) -> str | None:
        origin = headers.get("origin")
        # A proxy may rewrite the host; pages are then served at the address that the operator configured.
        ours = (headers.get("host"), _find_netloc(self._context.core.options.endpoint))
        if origin is not None and _find_netloc(origin) not in ours:
            return f"WebSockets from web pages of `{shorten(origin)}` are refused"
        site = headers.get("sec-fetch-site")
        if site not in _OUR_SITES:
            return f"WebSockets from pages of other sites (`{shorten(site)}`) are refused"
        return None

    def _find_open_refusal(self, headers: Headers) -> str | None:
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
