"""Certificates that the Kubernetes components, and OpenSSL, believe."""

import ssl
import stat
from pathlib import Path

from cryptography import x509

from testbed.pki import Authority, write_service_account_keys


def test_certificate_names_user_groups_and_hosts_when_issued(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    path, _ = authority.issue("node", common_name="system:node:a", groups=["system:nodes"], hosts=["10.0.0.1", "a"])
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    assert certificate.subject.rfc4514_string() == "CN=system:node:a,O=system:nodes"
    hosts = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(host.value) for host in hosts] == ["10.0.0.1", "a"]
    certificate.verify_directly_issued_by(
        x509.load_pem_x509_certificate(authority.certificate_file.read_bytes()),
    )


def test_authority_is_kept_when_the_folder_has_one(tmp_path: Path) -> None:
    first = Authority(tmp_path).certificate_file.read_bytes()
    assert Authority(tmp_path).certificate_file.read_bytes() == first


def test_keys_load_and_are_private_when_written(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).issue("admin", common_name="admin")
    ssl.create_default_context(cafile=str(tmp_path / "ca.crt")).load_cert_chain(certificate, key)
    private, public = write_service_account_keys(tmp_path)
    for path in (key, private, tmp_path / "ca.key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert public.read_text().startswith("-----BEGIN PUBLIC KEY-----")
