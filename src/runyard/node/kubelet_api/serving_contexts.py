"""TLS of the port: one listening context, behind which certificate and client authority are exchanged while it serves.

A context cannot forget an authority, and a listener cannot change its context. So the listening one only chooses, at
each handshake, the current one. Sessions are not resumed: that would carry an old decision into a new connection.
"""

import asyncio
import hashlib
import ssl
from collections.abc import Mapping
from typing import Any

from runyard.kube.tls import memory_file
from runyard.node.kubelet_api.serving_certificate import ServingCertificate


class ServingContext(ssl.SSLContext):
    """What new connections are served with."""

    authority_digest: bytes = b""
    """Which client authority it trusts; empty: none."""


class ServingContexts:
    """The context to listen with, and the current one behind it."""

    def __init__(self, certificate: ServingCertificate, *, authority: bytes | None) -> None:
        """Blocks: call it off the event loop."""
        self.certificate = certificate
        self.authority = authority
        self._current = build_serving_context(certificate, client_authority=authority)
        self.listening: ssl.SSLContext = self._current
        self.listening.sni_callback = self._choose

    async def present(self, certificate: ServingCertificate) -> None:
        """Serve new connections with another certificate."""
        self.certificate = certificate
        await self._rebuild()

    async def trust(self, authority: bytes | None) -> None:
        """Accept client certificates of another authority, and no more of the last one, on old connections neither."""
        self.authority = authority
        await self._rebuild()

    def find_peer_certificate(self, connection: ssl.SSLObject) -> Mapping[str, Any] | None:
        """The certificate that a client proved to have, if it was checked against the authority of today."""
        context = connection.context
        digest = context.authority_digest if isinstance(context, ServingContext) else b""
        if not digest or digest != self._current.authority_digest:
            return None
        return connection.getpeercert() or None

    async def _rebuild(self) -> None:
        self._current = await asyncio.to_thread(
            build_serving_context, self.certificate, client_authority=self.authority
        )

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _listening: ssl.SSLContext) -> None:
        # Called at every handshake, with or without a name.
        connection.context = self._current


def build_serving_context(certificate: ServingCertificate, *, client_authority: bytes | None) -> ServingContext:
    """A context that asks clients for a certificate, and goes on without. Blocks: call it off the event loop."""
    context = ServingContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    # An upgrade needs HTTP/1.1, and an apiserver prefers h2 where it is offered.
    context.set_alpn_protocols(["http/1.1"])
    with memory_file(certificate.chain + b"\n" + certificate.key) as path:
        context.load_cert_chain(path)
    # The same for every context: a handshake takes it from the listening one.
    context.verify_mode = ssl.CERT_OPTIONAL
    if client_authority:
        context.load_verify_locations(cadata=client_authority.decode("ascii", errors="ignore"))
        context.authority_digest = hashlib.sha256(client_authority).digest()
    return context
