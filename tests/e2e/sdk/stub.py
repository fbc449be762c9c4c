"""A small Core that records: enough of the routes and answers in the facts to carry the golden paths.

It proves the scripts, not the server: a golden path that passes here and fails there shows where the server differs
from what the SDK needs. `python -m tests.e2e.sdk.stub --port 8080` serves it by hand and prints each request.
"""

import argparse
import base64
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

from tests.e2e.sdk.stub_routes import OPEN_ROUTES, ROUTES, Answer, Call
from tests.e2e.sdk.stub_state import Memory, RefusalError

USERS = {"ada": "ada's password", "bob": "bob's password"}
PERSONAL_ACCESS_TOKEN = "pat-of-ada"


class Stub(ThreadingHTTPServer):
    """The server: one lock around every request."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.endpoint = f"http://127.0.0.1:{self.server_address[1]}"
        self.memory = Memory(self.endpoint, tokens={PERSONAL_ACCESS_TOKEN: "ada"})
        self.recorded: list[tuple[str, str, Any]] = []
        self.lock = threading.Lock()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Stub

    def _answer(self) -> None:
        address = urlsplit(self.path)
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        is_form = self.headers.get("Content-Type", "").startswith("application/x-www-form-urlencoded")
        try:
            form = {key: values[0] for key, values in parse_qs(sent.decode()).items()} if is_form else None
            body = form if form is not None else json.loads(sent or b"{}")
            with self.server.lock:
                self.server.recorded.append((self.command, self.path, body))
                self._send(200, self._route(address.path, parse_qsl(address.query), body))
        except RefusalError as refusal:
            self._send(refusal.status, {"status": refusal.status, "message": refusal.message})

    def _route(self, path: str, query: list[tuple[str, str]], body: Any) -> Answer:
        for routes, is_open in ((OPEN_ROUTES, True), (ROUTES, False)):
            for method, pattern, answer in routes:
                match = re.fullmatch(pattern, path)
                if match and method == self.command:
                    user = "" if is_open else self._user()
                    return answer(Call(self.server.memory, user=user, query=query, body=body, match=match))
        raise RefusalError(404, f"no route {self.command} {path}")

    def _user(self) -> str:
        scheme, _, value = self.headers.get("Authorization", "").partition(" ")
        if scheme == "Bearer" and value != PERSONAL_ACCESS_TOKEN and value in self.server.memory.tokens:
            return self.server.memory.tokens[value]
        if scheme == "Basic":
            user, _, password = base64.b64decode(value).decode().partition(":")
            if USERS.get(user) == password:
                return user
        raise RefusalError(401, "who are you? the credentials are missing or not valid")

    def _send(self, status: int, answer: Answer) -> None:
        content = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("X-Api-Level", "16")
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815 - the names that http.server calls

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """Say nothing: what came is in `recorded`."""


class _TalkingStub(Stub):
    """The stub by hand: every request on stdout."""

    def finish_request(self, request: Any, client_address: Any) -> None:
        seen = len(self.recorded)
        super().finish_request(request, client_address)
        for method, path, body in self.recorded[seen:]:
            print(method, path, json.dumps(body), flush=True)  # noqa: T201


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="A recording stub of the Core.")
    parser.add_argument("--port", type=int, default=8080)
    stub = _TalkingStub(parser.parse_args().port)
    print(f"{stub.endpoint}, users {USERS}", flush=True)  # noqa: T201
    stub.serve_forever()


if __name__ == "__main__":
    main()
