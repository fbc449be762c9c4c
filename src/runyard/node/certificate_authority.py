"""A certificate authority of our own, for what no other authority signs: the gateway's hosts, and the webhook."""

import datetime
import ipaddress
import os
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from runyard.kube.tls import memory_file

_AUTHORITY_LIFETIME = datetime.timedelta(days=3650)
LIFETIME = datetime.timedelta(days=90)
"""Of an issued certificate."""
_CLOCK_SKEW = datetime.timedelta(minutes=5)
_PEM = serialization.Encoding.PEM
_LONGEST_COMMON_NAME = 64


class CertificateAuthority:
    """A CA in a folder (`ca.crt`, `ca.key`), made there at the first start; without a folder, in memory."""

    def __init__(self, folder: Path | None = None) -> None:
        if folder is not None and (folder / "ca.crt").exists():
            self._certificate, self._key = _load(folder)
            return
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = _name("Runyard node")
        self._certificate = (
            _builder(name, name, self._key.public_key(), lifetime=_AUTHORITY_LIFETIME)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write_private(folder / "ca.key", _encode_key(self._key))
            (folder / "ca.crt").write_bytes(self.certificate_pem)

    @property
    def certificate_pem(self) -> bytes:
        """What clients need in order to trust it."""
        return self._certificate.public_bytes(_PEM)

    def issue(self, host: str) -> bytes:
        """A new key and certificate for one host (an IP address, a name, or `*.domain`), as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(host if len(host) <= _LONGEST_COMMON_NAME else "")
        issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            _builder(subject, self._certificate.subject, key.public_key(), lifetime=LIFETIME)
            .add_extension(x509.SubjectAlternativeName([_alternative_name(host)]), critical=not list(subject))
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(issuer_key, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return _encode_key(key) + certificate.public_bytes(_PEM)


def make_server_context(pem: bytes) -> ssl.SSLContext:
    """A context that serves HTTP/1.1 with a key and certificate of `issue`. Blocks: call it off the event loop."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    with memory_file(pem) as path:
        context.load_cert_chain(path)
    return context


def _load(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        certificate = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
        key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), password=None)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"the gateway's CA in {folder} cannot be read: {error}; remove ca.crt and ca.key there to make a new one"
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise ValueError(f"ca.key does not belong to ca.crt in {folder}: remove both to make a new CA")
    if certificate.not_valid_after_utc < datetime.datetime.now(datetime.UTC) + LIFETIME:
        raise ValueError(
            f"the gateway's CA in {folder} ends on {certificate.not_valid_after_utc:%Y-%m-%d}: remove ca.crt and "
            "ca.key there to make a new one"
        )
    return certificate, key


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, lifetime: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + lifetime)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)] if common_name else [])


def _encode_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _write_private(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _alternative_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
