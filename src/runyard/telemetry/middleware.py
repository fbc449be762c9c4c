"""ASGI middleware around every request: assigns a request id, writes the access log line, updates the metrics."""

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import structlog
from structlog.contextvars import bound_contextvars

from runyard.telemetry import events
from runyard.telemetry.metrics import Metrics
from runyard.telemetry.request_ids import HEADER, NAME, choose_request_id

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_ROUTINE = frozenset({"/healthz", "/readyz", "/metrics"})
_MOST_PATH = 300
HTTP_FAILED = 500
SWITCHING_PROTOCOLS = 101
"""The status of a WebSocket that was accepted."""
_STARTS = frozenset({"http.response.start", "websocket.http.response.start", "websocket.accept"})
_PARTS = frozenset({"http.response.body", "websocket.http.response.body", "websocket.send"})
log = structlog.get_logger()


class Observer:
    """The outermost middleware. Query strings are not logged: they may contain secrets."""

    def __init__(self, app: App, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or one WebSocket until it ends."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        request_id = choose_request_id(scope["headers"])
        answer = _Answer(send, request_id.encode(), self._metrics)
        self._metrics.in_flight.inc()
        with bound_contextvars(**{NAME: request_id}):
            try:
                await self._app(scope, receive, answer.send)
            except Exception:
                answer.status = answer.status or 500
                log.exception(events.REQUEST_FAILED, **_describe(scope))
                # After a complete response, re-raising would log it twice and close a connection that can be reused.
                if not answer.is_complete:
                    raise
            finally:
                self._metrics.in_flight.dec()
                self._record(scope, answer)

    def _record(self, scope: Scope, answer: "_Answer") -> None:
        seconds = time.perf_counter() - answer.begun
        self._metrics.count_request(
            method=_find_method(scope),
            route=_find_route(scope),
            status=answer.status,
            seconds=seconds if answer.waited is None else answer.waited,
        )
        write = log.debug if scope["path"] in _ROUTINE else log.info
        if answer.status is not None and answer.status >= HTTP_FAILED:
            write = log.warning
        write(
            events.REQUEST_DONE if answer.status else events.REQUEST_ABANDONED,
            **_describe(scope),
            status=answer.status,
            seconds=round(seconds, 4),
            sent_bytes=answer.size,
        )


class _Answer:
    """Wraps `send`: adds the request id to the headers, and measures status, size and time to first byte."""

    __slots__ = ("_metrics", "_request_id", "_send", "begun", "is_complete", "size", "status", "waited")

    def __init__(self, send: Send, request_id: bytes, metrics: Metrics) -> None:
        self._send = send
        self._request_id = request_id
        self._metrics = metrics
        self.begun = time.perf_counter()
        self.waited: float | None = None
        self.status: int | None = None
        self.size = 0
        self.is_complete = False

    async def send(self, message: Message) -> None:
        """Forward a message."""
        if message["type"] in _STARTS:
            self.status = message.get("status", SWITCHING_PROTOCOLS)
            self.waited = time.perf_counter() - self.begun
            headers = [(name, value) for name, value in message.get("headers", ()) if name.lower() != HEADER]
            message["headers"] = [*headers, (HEADER, self._request_id)]
        elif message["type"] in _PARTS:
            size = len(message.get("body") or message.get("bytes") or b"")
            self.size += size
            self._metrics.count_sent(size)
        await self._send(message)
        if message["type"] == "http.response.body":
            self.is_complete = not message.get("more_body", False)


def _describe(scope: Scope) -> dict[str, Any]:
    state = scope.get("state") or {}
    client, who = scope.get("client"), state.get("who")
    path = scope.get("raw_path") or scope["path"].encode(errors="backslashreplace")
    return {
        "method": _find_method(scope),
        "path": path.decode("ascii", "backslashreplace")[:_MOST_PATH],
        "address": client[0] if client else None,
        "user": getattr(who, "name", None),
        **({"failure": state["failure"]} if "failure" in state else {}),
    }


def _find_method(scope: Scope) -> str:
    """The method; WebSockets have none."""
    method: str = scope.get("method", "WEBSOCKET")
    return method


def _find_route(scope: Scope) -> str | None:
    """Return the route template, such as `/api/v1/-/{project}/runs/{id}`. The path itself contains ids."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else None
