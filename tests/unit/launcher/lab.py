"""A loopback server that answers a run as Runyard does, and the launcher as a process of its own."""

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from runyard.launcher.zipapps import build_zipapp

TOKEN = "the-token-of-the-run"
PYTHON_VARIABLE = "LAUNCHER_TEST_PYTHON"
"""Names the interpreter of the launched processes, to run the whole suite on another version."""
RUN = "/api/v1/-/vision/runs/r1"


@dataclass
class Recorded:
    """A request that the server got."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class FakeServer:
    """The part of the API that a run uses. `answer` may answer a request first: a status, or a status and headers."""

    effective: dict[str, Any]
    requests: list[Recorded] = field(default_factory=list)
    status: dict[str, Any] = field(default_factory=lambda: {"state": "RUNNING"})
    metrics: dict[str, Any] = field(default_factory=dict)
    revision: int = 1
    host: str = "127.0.0.1"
    port: int = 0
    answer: Callable[[Recorded], Any] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://{self.host}:{self.port}"

    def handle(self, request: Recorded) -> tuple[int, dict[str, str], Any]:
        self.requests.append(request)
        if self.answer is not None and (given := self.answer(request)) is not None:
            return given if isinstance(given, tuple) else (given, {}, {"message": f"no: {given}"})
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return 401, {}, {"message": "unknown token"}
        if (request.method, request.path) == ("GET", f"{RUN}/effective"):
            return 200, {}, {"run": "r1", "effective": self.effective}
        if request.path == RUN:
            return self._handle_run(request)
        if request.method == "PUT" and request.path.startswith(f"{RUN}/metrics/"):
            self.metrics[request.path.rpartition("/")[2]] = request.body
            return 200, {}, {}
        return 404, {}, {"message": "unknown route"}

    def _handle_run(self, request: Recorded) -> tuple[int, dict[str, str], Any]:
        if request.method == "PUT":
            if request.headers.get("if-match") != f'"{self.revision}"':
                return 412, {}, {"message": "changed in between"}
            self.revision += 1
            self.status |= request.body["status"]
        document = {"id": "r1", "kind": "python+job:run", "project": "vision", "status": self.status}
        return 200, {"ETag": f'"{self.revision}"'}, document


@contextmanager
def serve(server: FakeServer) -> Iterator[FakeServer]:
    """The server on a port of its host: the one it had before, if any."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            content = self.rfile.read(size)
            headers = {name.lower(): value for name, value in self.headers.items()}
            is_json = headers.get("content-type") == "application/json"
            body = json.loads(content) if content and is_json else content or None
            status, more, document = server.handle(Recorded(self.command, self.path, headers, body))
            data = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            self._answer()

        def do_PUT(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def log_message(self, *arguments: Any) -> None:
            pass

    listening = ThreadingHTTPServer((server.host, server.port), Handler)
    listening.daemon_threads = True
    server.port = listening.server_address[1]
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


@dataclass
class Launched:
    """A launcher that is over."""

    code: int
    out: str
    err: str
    termination: dict[str, Any]


@dataclass
class Lab:
    """Launches runs of one fake server, in one folder."""

    folder: Path
    server: FakeServer
    python: str = os.environ.get(PYTHON_VARIABLE) or sys.executable

    @property
    def pyz(self) -> Path:
        path = self.folder / "launcher.pyz"
        if not path.exists():
            path.write_bytes(build_zipapp())
        return path

    def make_environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        (self.folder / "termination").touch()
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {
            **kept,
            "RUNYARD_ENDPOINT": self.server.endpoint,
            "RUNYARD_TOKEN": TOKEN,
            "RUNYARD_PROJECT": "vision",
            "RUNYARD_RUN_ID": "r1",
            "RUNYARD_RUN_UID": "u1",
            "RUNYARD_WORK": str(self.folder / "work"),
            "RUNYARD_TERMINATION_LOG": str(self.folder / "termination"),
            "RUNYARD_HOST": "127.0.0.1",
            **(more or {}),
        }

    def start(self, *options: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.python, "-u", str(self.pyz), *options],
            env=self.make_environment(environment),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, process: subprocess.Popen[str], seconds: float = 60) -> Launched:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"the launcher did not end:\n{out}\n{err}") from None
        line = (self.folder / "termination").read_text()
        return Launched(process.returncode, out, err, json.loads(line) if line else {})

    def launch(self, code: str | None = None, *, handler: str = "main", **fields: Any) -> Launched:
        """Run `code`, or the source in `fields`, to its end."""
        source = {"handler": handler, **({} if code is None else {"code": code}), **fields.pop("source", {})}
        environment, options = fields.pop("environment", {}), fields.pop("options", ())
        self.server.effective = {"kind": "python", "action": "job", "source": source, **fields}
        return self.finish(self.start(*options, **environment))

    @contextmanager
    def service(self, code: str, *, handler: str = "main", **fields: Any) -> Iterator["RunningService"]:
        """A service, once it listens; ended by SIGKILL if the test did not end it."""
        source = {"handler": handler, "code": code, **fields.pop("source", {})}
        environment = {"RUNYARD_PORT": str(find_free_port()), **fields.pop("environment", {})}
        self.server.effective = {"kind": "python", "action": "serve", "source": source, **fields}
        process = self.start(**environment)
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line == f"runyard: the service listens on port {environment['RUNYARD_PORT']}\n", (
                line + process.stderr.read()
            )
            yield RunningService(self, process, int(environment["RUNYARD_PORT"]))
        finally:
            process.kill()
            process.communicate()


@dataclass
class RunningService:
    """A service that listens."""

    lab: Lab
    process: subprocess.Popen[str]
    port: int

    def call(
        self, path: str = "/", body: Any = None, *, method: str | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], Any]:
        """One request: status, headers, and the JSON of the answer or its bytes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            content = {} if isinstance(body, bytes | None) else {"Content-Type": "application/json"}
            connection.request(
                method or ("GET" if body is None else "POST"), path, body=data, headers={**content, **(headers or {})}
            )
            response = connection.getresponse()
            raw = response.read()
            received = {name.lower(): value for name, value in response.getheaders()}
        finally:
            connection.close()
        is_json = received.get("content-type") == "application/json"
        return response.status, received, json.loads(raw) if is_json and raw else raw

    def stop(self) -> Launched:
        """End it by SIGTERM."""
        self.process.terminate()
        return self.lab.finish(self.process)


def find_free_port() -> int:
    """A port of loopback that was free just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
