from collections.abc import Mapping

import pytest

from runyard.node.ledger import Ledger, Shortage
from runyard.node.offer import Amounts
from runyard.spec.kubernetes.quantity import Quantity

SEED = {"cpu": "63", "memory": "263567056Ki", "nvidia.com/gpu": "8", "pods": "8"}


def amounts(texts: Mapping[str, str]) -> Amounts:
    return {name: Quantity.parse(text) for name, text in texts.items()}


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(amounts(SEED))


def test_whole_capacity_is_allocatable_when_nothing_is_reserved(ledger: Ledger) -> None:
    assert ledger.allocatable() == SEED
    assert ledger.capacity() == SEED


def test_figures_are_those_of_the_seed_when_its_pod_is_reserved(ledger: Ledger) -> None:
    ledger.reserve("a", amounts({"cpu": "2", "memory": "16Gi", "nvidia.com/gpu": "1"}))
    assert ledger.allocatable() == {"cpu": "61", "memory": "246789840Ki", "nvidia.com/gpu": "7", "pods": "7"}
    assert ledger.capacity() == SEED


def test_figures_are_those_of_the_seed_when_eight_pods_take_all(ledger: Ledger) -> None:
    for number in range(8):
        ledger.reserve(str(number), amounts({"cpu": "7625m", "memory": "32900825Ki", "nvidia.com/gpu": "1"}))
    assert ledger.allocatable() == {"cpu": "2", "memory": "360456Ki", "nvidia.com/gpu": "0", "pods": "0"}
    ledger.release("3")
    assert ledger.allocatable()["cpu"] == "9625m"


def test_second_reservation_replaces_the_first_when_the_uid_is_the_same(ledger: Ledger) -> None:
    for cpu in ("2", "2", "500m"):
        ledger.reserve("a", amounts({"cpu": cpu}))
    assert ledger.allocatable() == SEED | {"cpu": "62500m", "pods": "7"}
    assert ledger.reserved == {"a": amounts({"cpu": "500m"})}


def test_release_gives_back_everything_once_when_it_is_repeated(ledger: Ledger) -> None:
    ledger.reserve("a", amounts({"cpu": "2", "example.com/fpga": "1"}))
    for _ in range(2):
        ledger.release("a")
    assert ledger.allocatable() == SEED
    assert not ledger.reserved


def test_shortage_states_figures_when_a_pod_asks_for_more_than_is_free(ledger: Ledger) -> None:
    ledger.reserve("a", amounts({"cpu": "62", "nvidia.com/gpu": "8"}))
    asked = amounts({"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "1"})
    assert ledger.find_shortage(asked) == (Shortage("cpu", "1500m", "1"), Shortage("nvidia.com/gpu", "1", "0"))
    assert str(ledger.find_shortage(asked)[0]) == "cpu: 1500m asked, 1 free"


def test_pods_are_short_when_all_slots_are_taken(ledger: Ledger) -> None:
    for number in range(8):
        ledger.reserve(str(number), {})
    assert ledger.find_shortage({}) == (Shortage("pods", "1", "0"),)


def test_there_is_room_when_a_pod_asks_for_exactly_what_is_free(ledger: Ledger) -> None:
    assert ledger.find_shortage(amounts({"cpu": "63", "memory": "263567056Ki", "nvidia.com/gpu": "8"})) == ()


def test_unknown_resource_is_short_when_any_of_it_is_asked(ledger: Ledger) -> None:
    assert ledger.find_shortage(amounts({"example.com/fpga": "1"})) == (Shortage("example.com/fpga", "1", "0"),)
    assert ledger.find_shortage(amounts({"example.com/fpga": "0"})) == ()


def test_ephemeral_storage_is_counted_when_the_capacity_has_it(ledger: Ledger) -> None:
    asked = amounts({"ephemeral-storage": "10Gi"})
    assert ledger.find_shortage(asked) == ()
    ledger.set_capacity(amounts(SEED | {"ephemeral-storage": "9Gi"}))
    assert ledger.find_shortage(asked) == (Shortage("ephemeral-storage", "10Gi", "9437184Ki"),)
    assert ledger.allocatable()["ephemeral-storage"] == "9437184Ki"


def test_allocatable_is_zero_when_the_capacity_shrinks_below_what_is_held(ledger: Ledger) -> None:
    ledger.reserve("a", amounts({"cpu": "4", "nvidia.com/gpu": "4"}))
    ledger.set_capacity(amounts(SEED | {"cpu": "2", "nvidia.com/gpu": "4"}))
    assert ledger.allocatable() == SEED | {"cpu": "0", "nvidia.com/gpu": "0", "pods": "7"}
    ledger.set_capacity(amounts(SEED))
    assert ledger.allocatable()["cpu"] == "59"


def test_fractions_are_rounded_against_the_pod_when_they_are_smaller_than_a_unit() -> None:
    ledger = Ledger(amounts({"cpu": "1.0009", "memory": "2047", "pods": "2"}))
    assert ledger.capacity() == {"cpu": "1", "memory": "1Ki", "pods": "2"}
    ledger.reserve("a", amounts({"cpu": "0.0001", "memory": "0.5"}))
    assert ledger.allocatable() == {"cpu": "999m", "memory": "1Ki", "pods": "1"}


def test_monstrous_amounts_are_short_when_they_are_asked(ledger: Ledger) -> None:
    for text in ("1e2000000000", "9E"):
        (shortage,) = ledger.find_shortage(amounts({"memory": text}))
        assert shortage.resource == "memory"
        ledger.reserve("a", amounts({"memory": text}))
        assert ledger.allocatable()["memory"] == "0Ki"
        ledger.release("a")
    assert ledger.allocatable() == SEED
