"""The outermost layer: what every answer carries, and, on a server without accounts, that no web page can drive it.

A browser sends a page's requests to `localhost` with the page's Origin, and with the page's host name where DNS was
bent to our address: both are refused, so that only programs and our own pages get through. Where it sends no Origin (an
image, a link), it says by Sec-Fetch-Site that another site's page is at work.
"""

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runyard import __version__
from runyard.api.context import ServerContext
from runyard.api.error_responses import error_response

API_LEVEL = "16"
"""What the SDKs 0.13 to 0.16 all accept."""

_OUR_SITES = (None, "same-origin", "none")
"""Programs say nothing, our pages the second, and somebody who typed the address the third."""


class OriginGuard:
    """Pure ASGI: it costs every request."""

    def __init__(self, app: ASGIApp, *, context: ServerContext) -> None:
        self._app = app
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or refuse it."""
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
            return f"this server has no accounts and answers only to {', '.join(sorted(hosts))}, not to {host[:100]!a}"
        origin = headers.get("origin")
        if origin is not None and _find_netloc(origin) != headers.get("host"):
            return f"this server has no accounts and takes nothing from web pages of {origin[:100]!a}"
        site = headers.get("sec-fetch-site")
        if site not in _OUR_SITES:
            return f"this server has no accounts and takes nothing from pages of other sites ({site[:100]!a})"
        return None


def _find_netloc(origin: str) -> str | None:
    """Host and port of an Origin; None where it is not one."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _strip_port(host: str) -> str:
    name, _, port = host.rpartition(":")
    return (name if port.isdigit() else host).lower()
