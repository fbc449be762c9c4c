"""A small HTTP proxy for tests: it passes on, refuses, or answers with a page of its own."""

import select
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import urlsplit

Conduct = Literal["pass", "refuse", "page", "silent"]
PAGE = b"<html><body>Please sign in to the guest network.</body></html>"


class SmallProxy:
    """Knows the real addresses of hosts, as the proxy of an organisation does; `asked` has what it was asked for."""

    def __init__(self, conduct: Conduct, hosts: Mapping[str, str]) -> None:
        self.conduct = conduct
        self.hosts = hosts
        self.asked: list[str] = []
        self.released = threading.Event()

    @contextmanager
    def serve(self) -> Iterator[str]:
        """Its address."""
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_CONNECT(self) -> None:
                proxy.asked.append(f"CONNECT {self.path}")
                if proxy.conduct != "pass":
                    proxy.decline(self)
                    return
                with _connect(proxy.hosts[self.path]) as upstream:
                    self.send_response(200)
                    self.end_headers()
                    relay(self.connection, upstream)
                self.close_connection = True

            def do_GET(self) -> None:
                proxy.asked.append(f"GET {self.path}")
                if proxy.conduct != "pass":
                    proxy.decline(self)
                    return
                parts = urlsplit(self.path)
                with _connect(proxy.hosts[parts.netloc]) as upstream:
                    head = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
                    upstream.sendall(f"GET {parts.path} HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode())
                    relay(self.connection, upstream)
                self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            self.released.set()
            server.shutdown()
            server.server_close()

    def decline(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer as a proxy that does not pass the request on."""
        if self.conduct == "silent":
            self.released.wait()
            handler.close_connection = True
            return
        handler.send_response(403 if self.conduct == "refuse" else 200)
        handler.send_header("Content-Type", "text/html")
        handler.send_header("Content-Length", str(len(PAGE)))
        handler.end_headers()
        with suppress(OSError):
            handler.wfile.write(PAGE)
            if handler.command == "CONNECT":
                handler.connection.recv(65536)  # what it took for an answer of the server, so that no reset follows
        handler.close_connection = True


def _connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)))


def relay(one: socket.socket, other: socket.socket, *, chunk_bytes: int = 65536) -> None:
    """Pass bytes both ways until one side ends."""
    with suppress(OSError):
        while True:
            for source in select.select([one, other], [], [])[0]:
                chunk = source.recv(chunk_bytes)
                if not chunk:
                    return
                (other if source is one else one).sendall(chunk)
