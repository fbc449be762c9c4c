"""An apiserver for the port, as far as the port speaks to one: it signs, knows tokens, and judges rights."""

import base64
import datetime
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from runyard.kube.client import Client
from testbed.pki import Authority
from tests.unit.kube.scripted_apiserver import ScriptedServer, serve


@dataclass
class ScriptedCluster:
    """What it knows, and what it was asked."""

    authority: Authority
    tokens: dict[str, dict[str, Any]] = field(default_factory=dict)
    rights: set[tuple[str, str, str]] = field(default_factory=set)
    """User, verb, subresource of nodes."""
    client_authority: str | None = None
    lifetime: datetime.timedelta = datetime.timedelta(hours=1)
    is_signing: bool = True
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    server: ScriptedServer = field(default_factory=ScriptedServer)

    def asked(self, plural: str) -> int:
        """How many requests of a resource came."""
        return sum(plural in request.target for request in self.server.requests)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        body = self.server.requests[-1].json() if self.server.requests[-1].body else {}
        parts = request.path.strip("/").split("/")
        if "configmaps" in parts:
            data = {} if self.client_authority is None else {"client-ca-file": self.client_authority}
            return web.json_response({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}, "data": data})
        if parts[-1] == "tokenreviews":
            user = self.tokens.get(body["spec"]["token"])
            return web.json_response({**body, "status": {"authenticated": user is not None, "user": user or {}}})
        if parts[-1] == "subjectaccessreviews":
            spec = body["spec"]
            attributes = spec["resourceAttributes"]
            right = (spec["user"], attributes["verb"], attributes["subresource"])
            return web.json_response({**body, "status": {"allowed": right in self.rights}})
        return self._answer_signing(request.method, parts, body)

    def _answer_signing(self, method: str, parts: list[str], body: dict[str, Any]) -> web.StreamResponse:
        if method == "POST":
            body["metadata"] |= {"uid": "u", "resourceVersion": "1"}
            self.requests[body["metadata"]["name"]] = body
        elif method == "PUT":
            self.requests[parts[-2]] = body
            if self.is_signing:
                pem = self.sign(base64.b64decode(body["spec"]["request"]))
                body["status"]["certificate"] = base64.b64encode(pem).decode()
        elif method == "DELETE":
            self.deleted.append(parts[-1])
            return web.json_response({"kind": "Status", "status": "Success", "apiVersion": "v1", "metadata": {}})
        return web.json_response(self.requests[body["metadata"]["name"] if body else parts[-1]])

    def sign(self, pem_request: bytes) -> bytes:
        """What the signer kubernetes.io/kubelet-serving makes of a request."""
        request = x509.load_pem_x509_csr(pem_request)
        ca = x509.load_pem_x509_certificate(self.authority.certificate_file.read_bytes())
        key = serialization.load_pem_private_key(self.authority.key_file.read_bytes(), password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(request.subject)
            .issuer_name(ca.subject)
            .public_key(request.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now)
            .not_valid_after(now + self.lifetime)
            .add_extension(names, critical=False)
        )
        return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@asynccontextmanager
async def scripted_cluster(folder: Path) -> AsyncIterator[tuple[ScriptedCluster, Client]]:
    """A cluster without rights and tokens, whose authority signs servers and clients."""
    authority = Authority(folder)
    cluster = ScriptedCluster(authority, client_authority=authority.certificate_file.read_text())
    async with serve(cluster.answer) as server:
        cluster.server = server
        async with Client.connect(server.config()) as client:
            yield cluster, client
