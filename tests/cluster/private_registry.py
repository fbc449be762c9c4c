"""A private image registry: the part of the OCI distribution API that a pull uses, with Basic authentication."""

import base64
import hashlib
import json
import re
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from testbed.images import Image

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_PATH = re.compile(r"/v2/(?P<name>[a-z0-9/-]+)/(?P<kind>manifests|blobs)/(?P<reference>[\w:.-]+)")


@dataclass
class PrivateRegistry:
    """Images by name and tag, for those who know the password."""

    user: str
    password: str
    host: str = ""
    """Address and port, once it listens."""
    manifests: dict[tuple[str, str], bytes] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    pulls: int = 0
    """Manifests that were sent. A node may have the layers of an image already."""

    def add(self, name: str, tag: str, image: Image) -> str:
        """Offer an image of the testbed; its reference."""
        with tarfile.open(image.archive) as archive:
            (listed,) = json.loads(_read(archive, "manifest.json"))
            config = self._store(_read(archive, listed["Config"]), "application/vnd.oci.image.config.v1+json")
            layers = [
                self._store(_read(archive, layer), "application/vnd.oci.image.layer.v1.tar")
                for layer in listed["Layers"]
            ]
        document = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": config, "layers": layers}
        content = json.dumps(document).encode()
        for reference in (tag, f"sha256:{hashlib.sha256(content).hexdigest()}"):
            self.manifests[name, reference] = content
        return f"{self.host}/{name}:{tag}"

    def answer(self, path: str, authorization: str | None) -> tuple[int, dict[str, str], bytes]:
        """The answer to a GET."""
        login = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        if authorization != f"Basic {login}":
            refusal = {"errors": [{"code": "UNAUTHORIZED", "message": "authentication required"}]}
            return 401, {"WWW-Authenticate": 'Basic realm="private"'}, json.dumps(refusal).encode()
        found = _PATH.fullmatch(path)
        if found is None:
            return (200 if path == "/v2/" else 404), {}, b"{}"
        if found["kind"] == "manifests":
            content, media = self.manifests.get((found["name"], found["reference"])), _MANIFEST
            self.pulls += content is not None
        else:
            content, media = self.blobs.get(found["reference"]), "application/octet-stream"
        if content is None:
            return (
                404,
                {},
                json.dumps({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}).encode(),
            )
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        return 200, {"Content-Type": media, "Docker-Content-Digest": digest}, content

    def _store(self, content: bytes, media: str) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.blobs[digest] = content
        return {"mediaType": media, "digest": digest, "size": len(content)}


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    opened = archive.extractfile(name)
    assert opened is not None
    return opened.read()


@contextmanager
def serve_registry(registry: PrivateRegistry, *, address: str) -> Iterator[PrivateRegistry]:
    """Let it listen on a free port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, headers, content = registry.answer(self.path.partition("?")[0], self.headers.get("Authorization"))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer((address, 0), Handler)
    server.daemon_threads = True
    registry.host = f"{address}:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def render_docker_config(registry: PrivateRegistry, *, password: str | None = None) -> str:
    """A Docker configuration as `docker login` writes it; its text."""
    login = base64.b64encode(f"{registry.user}:{password or registry.password}".encode()).decode()
    return json.dumps({"auths": {registry.host: {"auth": login}}})
