"""The gateway's own CA."""

import ssl
from pathlib import Path

import pytest

from runyard.node.certificate_authority import CertificateAuthority
from runyard.node.gateway.certificates import HostCertificates


def test_authority_is_the_same_when_the_gateway_starts_again(tmp_path: Path) -> None:
    first = CertificateAuthority(tmp_path / "ca").certificate_pem
    assert CertificateAuthority(tmp_path / "ca").certificate_pem == first
    assert CertificateAuthority().certificate_pem != first
    assert (tmp_path / "ca/ca.key").stat().st_mode & 0o777 == 0o600


def test_authority_is_refused_in_words_when_its_key_is_another_ones(tmp_path: Path) -> None:
    for name in ("one", "two"):
        CertificateAuthority(tmp_path / name)
    (tmp_path / "one/ca.key").write_bytes((tmp_path / "two/ca.key").read_bytes())
    with pytest.raises(ValueError, match=r"ca\.key does not belong to ca\.crt"):
        CertificateAuthority(tmp_path / "one")
    (tmp_path / "one/ca.key").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="cannot be read"):
        CertificateAuthority(tmp_path / "one")


def test_contexts_are_bounded_when_many_hosts_are_asked_for() -> None:
    hosts = HostCertificates(CertificateAuthority(), domain="example.org", is_routed=lambda _: True, most=2)
    first = hosts.find("a.example.org")
    assert hosts.find("a.example.org") is first
    for name in ("b", "c", "d"):
        assert isinstance(hosts.find(f"{name}.example.org"), ssl.SSLContext)
    assert len(hosts) == 2
    assert hosts.find("a.example.org") is not first
