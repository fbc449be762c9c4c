"""The judge of the load finds what it is there for."""

from typing import Any

from tests.node_load.judge import find_differences, find_overcommit, parse, sum_bound

CAPACITY = {"cpu": "63", "memory": "263567056Ki", "nvidia.com/gpu": "8", "pods": "8"}


def make_pod(*, node: str | None = "k8s.gpu", phase: str = "Running", **limits: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"resources": {"limits": limits}}]}
    return {"spec": spec | ({"nodeName": node} if node else {}), "status": {"phase": phase}}


def make_node(**allocatable: str) -> dict[str, Any]:
    return {"status": {"capacity": CAPACITY, "allocatable": {**CAPACITY, **allocatable}}}


def test_units_are_read_when_kubernetes_writes_them() -> None:
    assert [parse("cpu", text) for text in ("61", "1500m")] == [61000, 1500]
    assert [parse("memory", text) for text in ("360456Ki", "16Gi", "5")] == [360456 * 1024, 16 * 2**30, 5]


def test_only_living_pods_of_the_node_are_summed() -> None:
    pods = [make_pod(cpu="2"), make_pod(cpu="500m"), make_pod(node=None, cpu="9"), make_pod(phase="Failed", cpu="9")]
    assert sum_bound(pods, "k8s.gpu") == {"pods": 2, "cpu": 2500}


def test_overcommit_is_found_when_one_resource_is_above_its_capacity() -> None:
    held = sum_bound([make_pod(cpu="60"), make_pod(cpu="3001m")], "k8s.gpu")
    assert find_overcommit(held, CAPACITY) == ["cpu: 63001 of 63000"]


def test_difference_is_found_when_the_node_says_something_else() -> None:
    held = sum_bound([make_pod(cpu="2")], "k8s.gpu")
    assert find_differences(held, make_node(cpu="61", pods="7")) == []
    assert find_differences(held, make_node(cpu="61")) == ["pods: allocatable 8, held 1 of 8"]
