"""A certificate for servers of the tests."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def write_certificate(
    folder: Path, *, host: str = "127.0.0.1", starts_in: timedelta = timedelta(0), life: timedelta = timedelta(days=1)
) -> tuple[str, ...]:
    """A certificate of an address, signed by itself, and its key; as the server takes them."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    begin = datetime.now(UTC) + starts_in
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), begin, begin + life)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(text)
    return "--tls-certificate", str(folder / "cert.pem"), "--tls-key", str(folder / "key.pem")
