"""TLS towards the apiserver: contexts from key material in memory. Blocks: call it off the event loop."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from runyard.kube.errors import ConfigError

_RECORD_BYTES = 16 * 1024
"""What a TLS record holds at most. One read returns what is left of one record, however much is asked for."""


class _RecordReads(ssl.SSLObject):
    """Reads one record at a time into a buffer of its size.

    Event loops ask for 256 KiB, so every read would allocate as much and give nearly all of it back, and most reads
    return a line of a log. A server lets malloc map blocks of that size, which took most of the CPU time of its logs.
    """

    def read(self, len: int = 1024, buffer: Any = None) -> Any:  # noqa: A002 - the name of the base class
        """As `ssl.SSLObject.read`."""
        return super().read(min(len, _RECORD_BYTES), buffer)


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A certificate chain and its private key, both PEM."""

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)


def build_ssl_context(*, ca: bytes | None, certificate: ClientCertificate | None, skip_verify: bool) -> ssl.SSLContext:
    """A client context that trusts `ca` alone, or the system's roots where there is none."""
    if ca is not None and b"-----BEGIN CERTIFICATE-----" not in ca:
        # Python takes empty data for none, and would trust the system's roots instead.
        raise ConfigError("the certificate authority has no certificate in PEM")
    try:
        # Bundles carry comments in any language; what counts is ASCII.
        context = ssl.create_default_context(cadata=ca.decode("ascii", errors="ignore") if ca else None)
    except ssl.SSLError as error:
        raise ConfigError(f"the certificate authority is not PEM: {error}") from error
    context.sslobject_class = _RecordReads
    # On by default from Python 3.13; the authorities that many clusters were made with do not pass.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # aiohttp speaks HTTP/1.1 only; without ALPN some proxies in front of an apiserver assume h2.
    context.set_alpn_protocols(["http/1.1"])
    if skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        with memory_file(certificate.certificate + b"\n" + certificate.key) as path:
            try:
                # The password callback keeps OpenSSL from asking on the terminal when the key is encrypted.
                context.load_cert_chain(path, password="")
            except ssl.SSLError as error:
                raise ConfigError(f"the client certificate and key cannot be used: {error}") from error
    return context


@contextmanager
def memory_file(content: bytes) -> Iterator[str]:
    """A path to `content` in memory while in the block: OpenSSL wants a file, and a key must not touch a disk."""
    descriptor = os.memfd_create("runyard-key", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
