"""The certificate of the port, from a CertificateSigningRequest of the signer `kubernetes.io/kubelet-serving`.

That signer takes any requester (facts, LAB 12), but somebody must approve: the agent does so itself. It needs `create`,
`get` and `delete` on `certificatesigningrequests`, `update` on their `approval`, and `approve` on the signer. A request
is deleted once it was answered, or was not; what a crash leaves behind, the cluster deletes after at most a day.
"""

import asyncio
import base64
import ipaddress
import logging
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from runyard.kube import Client, Conflict, Forbidden, KubeError, NotFound
from runyard.kube.resources import CERTIFICATE_SIGNING_REQUESTS

SIGNER = "kubernetes.io/kubelet-serving"
RENEW_AFTER = 0.7
"""The share of its life after which a certificate is replaced."""
SIGNING_SECONDS = 60.0
"""How long the cluster has to sign."""
_POLL_SECONDS = 0.25
_LONGEST_NAME = 200

logger = logging.getLogger(__name__)


class CertificateNotIssued(Exception):
    """There is no certificate; the message says what the cluster lacks."""


@dataclass(frozen=True, slots=True)
class ServingCertificate:
    """A certificate chain and its private key, both PEM."""

    chain: bytes = field(repr=False)
    key: bytes = field(repr=False)
    begins_at: datetime
    ends_at: datetime

    @property
    def renewal_at(self) -> datetime:
        """When to ask for the next one."""
        return self.begins_at + (self.ends_at - self.begins_at) * RENEW_AFTER


async def request_certificate(
    client: Client,
    *,
    node: str,
    addresses: Sequence[str],
    signer: str = SIGNER,
    signing_seconds: float = SIGNING_SECONDS,
) -> ServingCertificate:
    """A new certificate for the node's addresses. Raises CertificateNotIssued, with what to do about it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = f"{re.sub(r'[^a-z0-9]+', '-', node)[:_LONGEST_NAME].strip('-')}-serving-{secrets.token_hex(6)}"
    body = render_request(name, render_pem_request(key, node=node, addresses=addresses), signer=signer)
    try:
        created = await client.create(CERTIFICATE_SIGNING_REQUESTS, body)
        try:
            await _approve(client, created)
            chain = await _wait_for_certificate(client, created, signer=signer, seconds=signing_seconds)
        finally:
            await _delete(client, created)
    except Forbidden as error:
        raise CertificateNotIssued(
            f"the agent may not get a certificate of the signer {signer}: {error}; it needs create, get and delete on"
            f" certificatesigningrequests, update on certificatesigningrequests/approval, and approve on the signer"
        ) from error
    except KubeError as error:
        raise CertificateNotIssued(f"the certificate of the kubelet port cannot be had: {error}") from error
    return _certificate_from_pem(chain, key)


def render_pem_request(key: ec.EllipticCurvePrivateKey, *, node: str, addresses: Sequence[str]) -> bytes:
    """The request in PEM: exactly the subject and names that the signer takes, and nothing else."""
    subject = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
        x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node}"),
    ]
    names = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def render_request(name: str, pem_request: bytes, *, signer: str) -> dict[str, Any]:
    """The CertificateSigningRequest."""
    return {
        "metadata": {"name": name},
        "spec": {
            "request": base64.b64encode(pem_request).decode(),
            "signerName": signer,
            "usages": ["digital signature", "server auth"],
        },
    }


async def _approve(client: Client, request: Mapping[str, Any]) -> None:
    condition = {
        "type": "Approved",
        "status": "True",
        "reason": "VirtualNode",
        "message": "approved by the agent of this virtual node for its own port",
    }
    body = {**request, "status": {"conditions": [condition]}}
    try:
        await client.replace(CERTIFICATE_SIGNING_REQUESTS, body, subresource="approval")
    except Conflict:
        # An approver of the cluster was faster, or refused: the conditions tell.
        logger.info("%s was decided by another approver", request["metadata"]["name"])


async def _wait_for_certificate(client: Client, request: Mapping[str, Any], *, signer: str, seconds: float) -> bytes:
    name = request["metadata"]["name"]
    try:
        async with asyncio.timeout(seconds):
            while True:
                status = (await client.get(CERTIFICATE_SIGNING_REQUESTS, name)).get("status") or {}
                for condition in status.get("conditions") or ():
                    if condition["type"] in ("Denied", "Failed"):
                        words = condition.get("message") or condition.get("reason") or "no reason given"
                        raise CertificateNotIssued(f"the cluster refused the request {name}: {words}")
                if status.get("certificate"):
                    return base64.b64decode(status["certificate"])
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError as error:
        raise CertificateNotIssued(
            f"nobody signed the request {name} within {seconds:.0f} s: no controller of this cluster serves the"
            f" signer {signer}; kube-controller-manager does so with --cluster-signing-cert-file and"
            f" --cluster-signing-key-file"
        ) from error


async def _delete(client: Client, request: Mapping[str, Any]) -> None:
    metadata = request["metadata"]
    try:
        await client.delete(CERTIFICATE_SIGNING_REQUESTS, metadata["name"], uid=metadata["uid"])
    except NotFound:
        pass
    except KubeError as error:
        logger.warning("the request %s is left behind, until the cluster deletes it: %s", metadata["name"], error)


def _certificate_from_pem(chain: bytes, key: ec.EllipticCurvePrivateKey) -> ServingCertificate:
    try:
        certificate = x509.load_pem_x509_certificate(chain)
    except ValueError as error:
        raise CertificateNotIssued(f"the cluster's answer is not a certificate: {error}") from error
    pem_key = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return ServingCertificate(
        chain=chain,
        key=pem_key,
        begins_at=certificate.not_valid_before_utc.astimezone(UTC),
        ends_at=certificate.not_valid_after_utc.astimezone(UTC),
    )
