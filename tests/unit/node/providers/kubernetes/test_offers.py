from typing import Any

from runyard.node.offer import CPU, GPU, MEMORY, PODS
from runyard.node.providers.kubernetes.offers import smallest_quota, sum_nodes
from runyard.spec.kubernetes.quantity import Quantity


def _quota(**hard: str) -> dict[str, Any]:
    return {"spec": {"hard": {key.replace("__", "."): value for key, value in hard.items()}}}


def test_least_of_each_resource_counts_when_there_are_several_quotas() -> None:
    quotas = [_quota(requests__cpu="8", limits__cpu="6", pods="9"), _quota(memory="1Gi", pods="4")]
    assert smallest_quota(quotas) == {
        CPU: Quantity.parse("6"),
        PODS: Quantity.parse("4"),
        MEMORY: Quantity.parse("1Gi"),
    }
    assert smallest_quota([{}]) == {}


def test_machines_are_added_up_when_they_take_pods() -> None:
    amounts = {"cpu": "4", "memory": "8Gi", GPU: "2", "pods": "110", "hugepages-2Mi": "0"}
    machine = {"status": {"allocatable": amounts}}
    cordoned = {"spec": {"unschedulable": True}, **machine}
    assert sum_nodes([machine, machine, cordoned]) == {
        CPU: Quantity.parse("8"),
        MEMORY: Quantity.parse("16Gi"),
        GPU: Quantity.parse("4"),
        PODS: Quantity.parse("220"),
    }
