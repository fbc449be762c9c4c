"""Host names of Services, and the names that would break a DNS label."""

import pytest

from runyard.node.hosts import LONGEST_TENANT, Hosts
from runyard.node.services.service_settings import ServiceSettings

UID = "8d0a8f33-e9f9-434a-b3de-9ae58ac9de76"


def test_host_reads_as_in_the_guide_when_tenant_and_domain_are_set() -> None:
    assert Hosts("skg00000", "cloud.provider.tld").host_of(UID) == f"{UID}-skg00000.cloud.provider.tld"


def test_first_label_has_63_characters_when_the_tenant_is_longest() -> None:
    host = Hosts("t" * LONGEST_TENANT, "example.org").host_of(UID)
    assert len(host.split(".")[0]) == 63


@pytest.mark.parametrize("tenant", ["", "t" * 27, "-a", "a-", "Upper", "a.b", "a_b", "ä", "a\n"])
def test_tenant_is_refused_when_it_would_break_a_dns_label(tenant: str) -> None:
    with pytest.raises(ValueError, match="1 to 26 lower-case letters"):
        Hosts(tenant, "example.org")


@pytest.mark.parametrize("domain", ["", ".", "a..b", "example.org.", "exa mple", "x" * 64, "a\n", "Example.org"])
def test_domain_is_refused_when_it_is_not_a_dns_name(domain: str) -> None:
    with pytest.raises(ValueError, match="is not a DNS name"):
        Hosts("t", domain)


def test_domain_is_refused_when_hosts_in_it_would_be_too_long() -> None:
    assert Hosts("t", ".".join(["a" * 62] * 3)).tenant == "t"
    with pytest.raises(ValueError, match="allowed: 189"):
        Hosts("t", ".".join(["a" * 47] * 4))


@pytest.mark.parametrize("uid", ["", "x", UID.upper(), f"{UID}-x", "../" + UID])
def test_host_is_refused_when_the_uid_is_not_one(uid: str) -> None:
    with pytest.raises(ValueError, match="lower-case UUID"):
        Hosts("t", "example.org").host_of(uid)


def test_settings_are_refused_when_only_one_of_tenant_and_domain_is_stated() -> None:
    with pytest.raises(ValueError, match="the domain of host names is missing"):
        ServiceSettings(tenant="t")
    with pytest.raises(ValueError, match="the tenant of host names is missing"):
        ServiceSettings(domain="example.org")
    assert ServiceSettings().find_hosts() is None


def test_finalizer_is_the_nodes_own_when_two_nodes_share_a_cluster() -> None:
    assert ServiceSettings().finalizer == "k8s.gpu/route"
    assert ServiceSettings(node="other.gpu").finalizer == "other.gpu/route"
