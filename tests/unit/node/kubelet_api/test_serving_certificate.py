"""The certificate request, and what is said when no certificate comes of it."""

import base64
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from runyard.kube.client import Client
from runyard.node.kubelet_api.serving_certificate import (
    CertificateNotIssued,
    ServingCertificate,
    render_pem_request,
    render_request,
    request_certificate,
)
from runyard.node.kubelet_api.serving_contexts import build_serving_context
from tests.unit.kube.scripted_apiserver import refuse, serve
from tests.unit.node.kubelet_api.scripted_cluster import scripted_cluster


def test_request_has_what_the_signer_takes_and_nothing_else_when_rendered() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.load_pem_x509_csr(render_pem_request(key, node="k8s.gpu", addresses=["10.0.0.1", "fd00::1"]))
    assert [(attribute.oid, attribute.value) for attribute in request.subject] == [
        (NameOID.ORGANIZATION_NAME, "system:nodes"),
        (NameOID.COMMON_NAME, "system:node:k8s.gpu"),
    ]
    names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["10.0.0.1", "fd00::1"]
    assert len(request.extensions) == 1
    assert request.is_signature_valid


def test_usages_are_those_of_a_server_when_rendered() -> None:
    body = render_request("n", b"pem", signer="kubernetes.io/kubelet-serving")
    assert body["spec"] == {
        "request": base64.b64encode(b"pem").decode(),
        "signerName": "kubernetes.io/kubelet-serving",
        "usages": ["digital signature", "server auth"],
    }


async def test_certificate_can_be_served_and_the_request_is_deleted_when_signed(tmp_path: Path) -> None:
    async with scripted_cluster(tmp_path) as (cluster, client):
        certificate = await request_certificate(client, node="k8s.gpu", addresses=["10.0.0.1"])
    (name, request), *others = cluster.requests.items()
    assert (others, cluster.deleted) == ([], [name])
    assert name.startswith("k8s-gpu-serving-")
    assert request["status"]["conditions"][0]["type"] == "Approved"
    assert datetime.now(UTC) < certificate.renewal_at < certificate.ends_at
    assert "BEGIN" not in repr(certificate)
    context = build_serving_context(certificate, client_authority=None)
    assert context.verify_mode is ssl.CERT_OPTIONAL


async def test_reason_names_signer_and_flags_when_nobody_signs(tmp_path: Path) -> None:
    async with scripted_cluster(tmp_path) as (cluster, client):
        cluster.is_signing = False
        with pytest.raises(
            CertificateNotIssued, match=r"signer kubernetes\.io/kubelet-serving; kube-controller-manager"
        ):
            await request_certificate(client, node="k8s.gpu", addresses=["10.0.0.1"], signing_seconds=0.3)
    assert len(cluster.deleted) == 1


async def test_reason_names_the_rights_when_the_agent_lacks_them() -> None:
    async with serve(refuse(403, "Forbidden")) as server, Client.connect(server.config()) as client:
        with pytest.raises(CertificateNotIssued, match="it needs create, get and delete on certificatesigningrequests"):
            await request_certificate(client, node="k8s.gpu", addresses=["10.0.0.1"])


async def test_reason_is_the_signers_when_it_refuses(tmp_path: Path) -> None:
    async with scripted_cluster(tmp_path) as (cluster, client):
        sign = cluster._answer_signing

        def deny(method: str, parts: list[str], body: dict[str, object]) -> web.StreamResponse:
            answer = sign(method, parts, body)
            for request in cluster.requests.values():
                request["status"] = {"conditions": [{"type": "Failed", "message": "not one of ours"}]}
            return answer if method != "GET" else web.json_response(cluster.requests[parts[-1]])

        cluster._answer_signing = deny  # type: ignore[method-assign]
        with pytest.raises(CertificateNotIssued, match="not one of ours"):
            await request_certificate(client, node="k8s.gpu", addresses=["10.0.0.1"])


def test_renewal_is_well_before_the_end_when_it_is_planned() -> None:
    begin, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 11, tzinfo=UTC)
    certificate = ServingCertificate(b"", b"", begins_at=begin, ends_at=end)
    assert certificate.renewal_at == datetime(2026, 1, 8, tzinfo=UTC)
