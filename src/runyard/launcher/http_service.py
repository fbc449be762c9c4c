"""A service: an HTTP server around the handler, for `serve` runs.

One thread per connection, and one event loop for async handlers. `/healthz` is answered by the launcher; every other
path calls the handler. The port is bound before `init` and listens after it: a connection means that it is ready.
"""

import asyncio
import inspect
import json
import socket
import socketserver
import sys
import threading
import time
import uuid
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from . import digitalhub_bridge
from .arguments import Arguments
from .failures import BadResult, NotPrepared, UserError, print_traceback
from .launch_settings import LaunchSettings
from .results import name_results, to_json
from .run_context import Response
from .run_session import Functions, Session
from .signals import StopSignal

HEALTH_PATH = "/healthz"
LARGEST_BODY_BYTES = 64 << 20
"""Of a request."""
MOST_CONNECTIONS = 512
"""Open connections; more are answered by 503."""
MOST_QUERY_FIELDS = 100
"""Fields of a query string."""
IDLE_SECONDS = 60.0
"""A connection without a byte for so long is closed: an idle client, or a slow one (slowloris)."""
DEFAULT_GRACE_SECONDS = 30.0
"""Kubernetes' default time between SIGTERM and SIGKILL."""
_GRACE_MARGIN_SECONDS = 2.0
_RETRY_AFTER_SECONDS = 1
_POLL_SECONDS = 0.1


@dataclass
class Event:
    """A request, as DigitalHub's (nuclio's) handlers get it as `event`. `body` is the value of a JSON body."""

    body: Any
    headers: Mapping[str, str]
    method: str
    path: str
    fields: Mapping[str, str]
    content_type: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    trigger: Any = None


class Refusal(Exception):
    """A request that is answered with a status of its own; the text is for the client."""

    def __init__(self, status: int, message: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers or {}


@dataclass(frozen=True)
class Reply:
    """What is sent: a body as a whole, or in chunks."""

    status: int
    content_type: str
    body: "bytes | Iterator[bytes]"
    headers: Mapping[str, str] = field(default_factory=dict)


class Slot:
    """Room for one call of the handler; given back once."""

    def __init__(self, slots: threading.BoundedSemaphore) -> None:
        self._slots: threading.BoundedSemaphore | None = slots

    def release(self) -> None:
        """Give it back before the last byte is sent: a client that has its answer may call again at once."""
        slots, self._slots = self._slots, None
        if slots is not None:
            slots.release()


class Service:
    """The handler, its limit of concurrent calls, and the state of the server."""

    def __init__(self, session: Session, functions: Functions, *, values: Mapping[str, Any], concurrency: int) -> None:
        handler = functions.handler
        # DigitalHub's decorator stores outputs of a run; a request has none.
        self._handler = inspect.unwrap(handler) if digitalhub_bridge.is_decorated(handler) else handler
        self._session, self._binder = session, functions.binder
        self._values = values
        self._slots = threading.BoundedSemaphore(concurrency)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._active = 0
        self._idle = threading.Condition()
        self.is_draining = False

    @contextmanager
    def admit(self) -> Iterator["Slot"]:
        """Hold a slot for one call until the answer is sent; raises `Refusal` if there is none."""
        headers = {"Retry-After": str(_RETRY_AFTER_SECONDS)}
        with self._idle:
            if self.is_draining:
                raise Refusal(503, "the service is stopping", headers=headers)
            if not self._slots.acquire(blocking=False):
                raise Refusal(503, "the service is busy", headers=headers)
            self._active += 1
        slot = Slot(self._slots)
        try:
            yield slot
        finally:
            slot.release()
            with self._idle:
                self._active -= 1
                self._idle.notify_all()

    def drain(self, seconds: float) -> bool:
        """Refuse new requests and wait until those in flight are answered; whether all were in time."""
        with self._idle:
            self.is_draining = True
            return self._idle.wait_for(lambda: self._active == 0, timeout=seconds)

    def handle(self, event: Event) -> Reply:
        """Answer a request by the handler; raises `Refusal`."""
        try:
            arguments = self._bind(event)
        except NotPrepared as error:
            raise Refusal(400, f"{error}{_explain_content_type(event)}") from None
        try:
            returned = self._handler(*arguments.positional, **arguments.named)
            if inspect.isawaitable(returned):
                returned = self._run_coroutine(_await(returned))
            return self._make_reply(returned)
        except BaseException as error:  # noqa: BLE001 - whatever one request raises, the service goes on
            report_failure(error, event.id)
            message = f"the handler failed; the run's log has the traceback of request {event.id}"
            raise Refusal(500, message) from None

    def _bind(self, event: Event) -> Arguments:
        """Bind the run's values, then those of the query, then those of the body."""
        provided = {**self._session.provided, "event": lambda: event}
        if self._binder.takes("event"):
            return self._binder.bind(self._values, provided=provided)
        values = {**self._values, **event.fields}
        if isinstance(event.body, dict):
            values |= event.body
        elif event.body is not None:
            own = [name for name in self._binder.names if name not in provided and name not in self._values]
            if len(own) != 1:
                raise NotPrepared("the body must be a JSON object with the parameters of the handler")
            values[own[0]] = event.body
        return self._binder.bind(values, provided=provided)

    def _run_coroutine(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._get_loop()).result()

    def _get_loop(self) -> asyncio.AbstractEventLoop:
        with self._idle:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="runyard-async", daemon=True).start()
            return self._loop

    def _make_reply(self, returned: Any) -> Reply:
        """A value as JSON; what nuclio's handlers return (text, status and body, `Response`) as nuclio answers it."""
        if self._binder.takes("event"):
            if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[0], int):
                returned = Response(status_code=returned[0], body=returned[1])
            elif isinstance(returned, str):
                returned = Response(body=returned)
        if all(hasattr(returned, name) for name in ("body", "status_code", "headers", "content_type")):
            is_text = isinstance(returned.body, str)
            body, content_type = (returned.body.encode(), "text/plain") if is_text else self._make_body(returned.body)
            headers = {str(name): str(value) for name, value in (returned.headers or {}).items()}
            return Reply(int(returned.status_code), returned.content_type or content_type, body, headers)
        body, content_type = self._make_body(returned)
        return Reply(200, content_type, body)

    def _make_body(self, value: Any) -> "tuple[bytes | Iterator[bytes], str]":
        if isinstance(value, bytes | bytearray):
            return bytes(value), "application/octet-stream"
        if inspect.isasyncgen(value):
            return _iter_chunks(self._iter_async(value)), "application/x-ndjson"
        if inspect.isgenerator(value):
            return _iter_chunks(value), "application/x-ndjson"
        if isinstance(value, tuple):
            value = name_results(value)
        return json.dumps(to_json(value, "of the handler")).encode(), "application/json"

    def _iter_async(self, generator: Any) -> Iterator[Any]:
        # None marks the end: a StopAsyncIteration cannot leave a coroutine's future.
        while (item := self._run_coroutine(_get_next(generator))) is not None:
            yield item[0]


async def _await(value: Any) -> Any:
    return await value


async def _get_next(generator: Any) -> "tuple[Any] | None":
    async for value in generator:
        return (value,)
    return None


def _iter_chunks(values: Iterator[Any]) -> Iterator[bytes]:
    """Values of a generator: text and bytes as they are, others as lines of JSON."""
    for value in values:
        if isinstance(value, bytes | str):
            yield value.encode() if isinstance(value, str) else value
        else:
            yield json.dumps(to_json(value, "of the handler")).encode() + b"\n"


def report_failure(error: BaseException, request_id: str) -> None:
    """Print a failure of one request to the log, with its traceback."""
    cause = error.cause if isinstance(error, UserError) else error
    sys.stderr.write(f"runyard: request {request_id} failed\n")
    if isinstance(cause, BadResult):
        sys.stderr.write(f"runyard: {cause}\n")
    else:
        print_traceback(cause)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    service: Service

    def __init__(self, address: tuple[str, int]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _Handler, bind_and_activate=False)
        self._connections = threading.BoundedSemaphore(MOST_CONNECTIONS)

    def server_bind(self) -> None:
        """Bind the port. `http.server` would also ask the DNS for the host's name, which may take long."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[0], self.server_address[1]  # type: ignore[assignment]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, if there is room for one more."""
        if self._connections.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        with_length = (
            b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
        try:
            request.settimeout(1.0)
            request.sendall(with_length)
        except OSError:
            pass
        finally:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks is the client's business."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    server: _Server

    def version_string(self) -> str:
        """The `Server` header: no versions for strangers."""
        return "runyard"

    def log_message(self, *arguments: Any) -> None:
        """Requests are not logged: the log is the user's."""

    def handle_expect_100(self) -> bool:
        """Check the size before the client sends the body."""
        return True

    def _answer(self) -> None:
        service = self.server.service
        try:
            if urlsplit(self.path).path == HEALTH_PATH:
                # A body would be read as the next request.
                self.close_connection = self.close_connection or "Content-Length" in self.headers
                self._send(_describe_health(service))
                return
            event = self._read_event()
            with service.admit() as slot:
                self._send(service.handle(event), slot)
        except Refusal as refusal:
            body = json.dumps({"status": refusal.status, "message": str(refusal)}).encode()
            self._send(Reply(refusal.status, "application/json", body, refusal.headers))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = _answer  # noqa: N815 - http.server's names

    def _read_event(self) -> Event:
        raw = self._read_body()
        parts = urlsplit(self.path)
        content_type = self.headers.get("Content-Type", "")
        try:
            fields = dict(parse_qsl(parts.query, keep_blank_values=True, max_num_fields=MOST_QUERY_FIELDS))
        except ValueError:
            raise Refusal(400, f"the query has more than {MOST_QUERY_FIELDS} fields") from None
        return Event(
            body=_read_value(raw, content_type),
            headers=dict(self.headers.items()),
            method=self.command,
            path=parts.path,
            fields=fields,
            content_type=content_type,
        )

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding"):
            self.close_connection = True
            raise Refusal(411, "send the body with Content-Length")
        text = self.headers.get("Content-Length", "0").strip()
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            self.close_connection = True
            raise Refusal(400, "Content-Length is not a number")
        size = int(text)
        if size > LARGEST_BODY_BYTES:
            self.close_connection = True
            raise Refusal(413, f"the body has {size} bytes; at most {LARGEST_BODY_BYTES} are allowed")
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(HTTPStatus.CONTINUE)
            self.end_headers()
        raw = self.rfile.read(size)
        if len(raw) < size:
            self.close_connection = True
            raise Refusal(400, "the body ended early")
        return raw

    def _send(self, reply: Reply, slot: Slot | None = None) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        for name, value in reply.headers.items():
            if not {"\r", "\n"} & {*name, *value} and name.lower() not in ("content-length", "transfer-encoding"):
                self.send_header(name, value)
        if self.server.service.is_draining or self.close_connection:
            self.close_connection = True
            self.send_header("Connection", "close")
        if isinstance(reply.body, bytes):
            if slot is not None:
                slot.release()
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)
            return
        self._send_chunks(reply.body, slot)

    def _send_chunks(self, chunks: Iterator[bytes], slot: Slot | None) -> None:
        is_chunked = self.request_version != "HTTP/1.0"
        self.send_header(*(("Transfer-Encoding", "chunked") if is_chunked else ("Connection", "close")))
        self.end_headers()
        self.close_connection = self.close_connection or not is_chunked
        try:
            for chunk in chunks:
                if chunk:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk) if is_chunked else chunk)
            if slot is not None:
                slot.release()
            if is_chunked:
                self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True
        except BaseException as error:  # noqa: BLE001 - the handler's generator: the client sees a cut answer
            self.close_connection = True
            report_failure(error, "in the middle of its answer")
        finally:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()


def _describe_health(service: Service) -> Reply:
    status = 503 if service.is_draining else 200
    body = json.dumps({"status": "stopping" if service.is_draining else "ok"}).encode()
    return Reply(status, "application/json", body)


def _explain_content_type(event: Event) -> str:
    """What to add to a refusal if the body is not JSON by its header; curl's `--data` sends such a header by itself."""
    if not isinstance(event.body, bytes) or not event.content_type:
        return ""
    return (
        f"; the body was not read as JSON, because its Content-Type is {event.content_type[:80]}: "
        "send Content-Type: application/json"
    )


def _read_value(raw: bytes, content_type: str) -> Any:
    """The JSON value of the body; the bytes themselves if the request says that they are something else."""
    kind = content_type.partition(";")[0].strip().lower()
    if not raw:
        return None
    if kind and kind != "application/json" and not kind.endswith("+json"):
        return raw
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        if not kind:
            return raw
        raise Refusal(400, "the body is not valid JSON") from None


def serve_run(
    session: Session, functions: Functions, *, effective: Mapping[str, Any], settings: LaunchSettings
) -> None:
    """Call `init`, then serve until SIGTERM, then finish the requests in flight within the grace period."""
    try:
        server = _Server((settings.host, settings.port))
        server.server_bind()
    except OSError as error:
        raise NotPrepared(f"the port {settings.port} cannot be bound: {error.strerror or error}") from None
    with server:
        values = session.read_values(functions, effective)
        rest = session.call_init(functions, values, effective.get("init_parameters") or {})
        functions.binder.check_known(rest, provided=(*session.provided, "event"))
        server.service = Service(session, functions, values=rest, concurrency=settings.concurrency)
        _serve_until_stopped(server, session.stop)
        _drain(server, effective.get("grace_period"))


def _serve_until_stopped(server: _Server, stop: StopSignal) -> None:
    stopped = threading.Event()
    # Before the first request can come: from then on a signal means to drain.
    with stop.redirect(stopped.set):
        server.server_activate()
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": _POLL_SECONDS}, daemon=True).start()
        sys.stderr.write(f"runyard: the service listens on port {server.server_port}\n")
        # Signals are handled between two waits.
        while not stop.is_received:
            stopped.wait(1.0)


def _drain(server: _Server, grace_seconds: Any) -> None:
    grace = float(grace_seconds) if isinstance(grace_seconds, int | float) else DEFAULT_GRACE_SECONDS
    deadline = time.monotonic() + grace - _GRACE_MARGIN_SECONDS
    server.shutdown()
    if not server.service.drain(max(0.0, deadline - time.monotonic())):
        sys.stderr.write("runyard: requests were still in flight at the end of the grace period\n")
