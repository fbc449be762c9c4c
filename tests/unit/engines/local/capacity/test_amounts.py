from typing import Any

import pytest

from runyard.engines.local.capacity.amounts import LARGEST_AMOUNT, format_resource, read_demand


def pod(**requests: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]}}


def test_demand_is_one_run_when_nothing_is_asked() -> None:
    assert read_demand(pod()) == {"pods": 1}


def test_demand_is_in_whole_numbers_when_quantities_are_asked() -> None:
    given = pod(cpu="1500m", memory="1Gi", **{"nvidia.com/gpu": "2", "ephemeral-storage": "0"})
    assert read_demand(given) == {"cpu": 1500, "memory": 1 << 30, "nvidia.com/gpu": 2, "pods": 1}


def test_disk_of_claims_is_added_when_they_belong_to_the_run() -> None:
    claims: list[dict[str, Any]] = [{"spec": {"resources": {"requests": {"storage": "1Gi"}}}}, {"spec": {}}, {}]
    assert read_demand(pod(**{"ephemeral-storage": "1Gi"}), claims)["ephemeral-storage"] == 2 << 30


def test_amount_is_capped_when_it_is_too_large_to_count() -> None:
    assert read_demand(pod(memory="1e30"))["memory"] == LARGEST_AMOUNT
    assert read_demand(pod(cpu="9e18"))["cpu"] == LARGEST_AMOUNT


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [("cpu", 2000, "2"), ("cpu", 500, "500m"), ("memory", 8 << 30, "8Gi"), ("nvidia.com/gpu", 1, "1")],
)
def test_amount_reads_as_a_quantity_when_it_is_shown(name: str, amount: int, text: str) -> None:
    assert format_resource(name, amount) == text
