"""Names, options and addresses of a cluster."""

import ipaddress
import itertools
from pathlib import Path

import pytest

from testbed.addresses import SLOTS, Addresses
from testbed.errors import TestbedError
from testbed.site import Options, Site, check_name, cluster_directory, find_site, iter_names


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of the test's own; its path is longer than sockets allow, which none is made in."""
    monkeypatch.setenv("RUNYARD_TESTBED_STATE", str(tmp_path))
    monkeypatch.setattr("testbed.site._LONGEST_DIRECTORY", 1000)
    return tmp_path


@pytest.mark.parametrize("name", ["a", "dev", "two-words", "x" * 24, "0"])
def test_name_is_taken_when_it_is_valid(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a/b", "..", "a b", "x" * 25, "é", "a\n"])
def test_name_is_refused_when_it_cannot_be_part_of_a_path(name: str) -> None:
    with pytest.raises(TestbedError, match="allowed: 1 to 24 lower-case letters"):
        check_name(name)


def test_site_is_found_again_when_it_was_saved(state: Path) -> None:
    options = Options(gpus=3, flags=(("etcd", "--debug"), ("kubelet", "--v=2")))
    site = Site("one", cluster_directory("one"), Addresses(7), options)
    site.directory.mkdir()
    site.save()
    assert find_site("one") == site
    assert iter_names() == ["one"]
    assert options.extra_flags("kubelet") == ["--v=2"]


@pytest.mark.parametrize("record", ["", "{", "[]", '{"slot": 99, "options": {"flags": []}}', '{"slot": 1}'])
def test_site_is_not_found_when_its_record_is_damaged(state: Path, record: str) -> None:
    (state / "one").mkdir()
    (state / "one/cluster.json").write_text(record)
    assert find_site("one") is None


def test_ranges_never_overlap_when_slots_differ() -> None:
    networks = [
        ipaddress.ip_network(text)
        for slot in range(SLOTS)
        for addresses in [Addresses(slot)]
        for text in (addresses.link_network, addresses.pod_network, addresses.service_network)
    ]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(networks, 2))
