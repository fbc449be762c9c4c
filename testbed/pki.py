"""A cluster's certificate authority, and the certificates it issues."""

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = datetime.timedelta(days=365)


class Authority:
    """One CA in one folder, as `ca.crt` and `ca.key`; made when it is not there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        if not self.certificate_file.exists():
            self._create()

    @property
    def certificate_file(self) -> Path:
        return self._folder / "ca.crt"

    @property
    def key_file(self) -> Path:
        return self._folder / "ca.key"

    def issue(
        self, name: str, *, common_name: str, groups: Sequence[str] = (), hosts: Sequence[str] = ()
    ) -> tuple[Path, Path]:
        """Write NAME.crt and NAME.key for a client, a server, or both. Overwrites."""
        ca = x509.load_pem_x509_certificate(self.certificate_file.read_bytes())
        ca_key = serialization.load_pem_private_key(self.key_file.read_bytes(), password=None)
        if not isinstance(ca_key, ec.EllipticCurvePrivateKey):
            raise TypeError("the CA's key is not one of ours")
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _certificate(_name(common_name, groups), ca.subject, key.public_key()).add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
            critical=False,
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False
            )
        certificate_path, key_path = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        certificate_path.write_bytes(builder.sign(ca_key, hashes.SHA256()).public_bytes(_PEM))
        _write_key(key_path, key)
        return certificate_path, key_path

    def _create(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name("runyard-testbed", ())
        certificate = (
            _certificate(subject, subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        _write_key(self.key_file, key)
        self.certificate_file.write_bytes(certificate.public_bytes(_PEM))


_PEM = serialization.Encoding.PEM


def write_service_account_keys(folder: Path) -> tuple[Path, Path]:
    """The key pair with which the apiserver signs service-account tokens: (private, public)."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private_path, public_path = folder / "sa.key", folder / "sa.pub"
    _write_key(private_path, key)
    public_path.write_bytes(key.public_key().public_bytes(_PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    return private_path, public_path


def _certificate(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + _LIFETIME)
    )


def _name(common_name: str, groups: Sequence[str]) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
