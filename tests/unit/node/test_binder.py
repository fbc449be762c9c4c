"""Which pods the binder takes, and what it tells the others."""

import asyncio
from typing import Any, cast

import pytest

from runyard.kube import Leadership
from runyard.node.admission.judgement import find_demand
from runyard.node.admission.refusal import Refusal
from runyard.node.binder import Binder
from runyard.node.ledger import Ledger
from runyard.node.node_settings import NodeSettings
from runyard.node.offer import CPU, GPU, MEMORY, PODS, Shape
from runyard.spec.kubernetes.quantity import Quantity

SHAPE = Shape("one", "nvidia", {CPU: Quantity.parse("8"), MEMORY: Quantity.parse("32Gi"), GPU: Quantity.parse("1")})


class Told:
    """Stands for `PendingReasons`."""

    def __init__(self) -> None:
        self.reasons: dict[str, tuple[str, str]] = {}

    def tell(self, pod: dict[str, Any], reason: str, message: str) -> None:
        self.reasons[pod["metadata"]["name"]] = (reason, message)

    def keep(self, uids: set[str]) -> None:
        pass


class Pods:
    """Stands for a reflector of unbound pods."""

    def __init__(self, *pods: dict[str, Any]) -> None:
        self.store = self
        self.held = list(pods)

    def views(self) -> list[dict[str, Any]]:
        return self.held


def make_pod(name: str, *, cpu: str = "2", priority: int = 0, age: int = 0, **spec: Any) -> dict[str, Any]:
    limits = {CPU: cpu, MEMORY: "4Gi", GPU: "1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "creationTimestamp": f"2026-01-01T00:00:{59 - age:02}Z",
        },
        "spec": {
            "schedulerName": "k8s.gpu",
            "runtimeClassName": "one",
            "priority": priority,
            "containers": [{"name": "main", "image": "busybox", "resources": {"limits": limits, "requests": limits}}],
            **spec,
        },
    }


class World:
    def __init__(self, *pods: dict[str, Any], gpus: int = 8) -> None:
        capacity = {CPU: Quantity.parse("63"), MEMORY: Quantity.parse("256Gi"), GPU: Quantity.from_int(gpus)}
        self.ledger = Ledger({**capacity, PODS: Quantity.parse("8")})
        self.told = Told()
        self.pods = Pods(*pods)
        self.hold: Refusal | None = None
        self.shapes = {"one": SHAPE}
        self.binder = Binder(
            cast("Any", None),
            NodeSettings(address="10.0.0.1"),
            leadership=cast("Leadership", None),
            ledger=self.ledger,
            unbound=cast("Any", self.pods),
            read_shapes=lambda: self.shapes,
            find_hold=lambda: self.hold,
            node_labels={"kubernetes.io/hostname": "k8s.gpu"},
            reasons=cast("Any", self.told),
            on_reserved=lambda: None,
            observe=lambda seconds, outcome: None,
        )

    async def choose(self) -> list[str]:
        chosen = []
        async for pod, demand in self.binder.choose():
            self.ledger.reserve(pod["metadata"]["uid"], demand)
            chosen.append(pod["metadata"]["name"])
        return chosen


async def test_pods_are_taken_by_priority_then_age_when_there_is_room_for_few() -> None:
    world = World(
        make_pod("young"), make_pod("old", age=30), make_pod("urgent", priority=10), make_pod("older", age=40), gpus=3
    )
    assert await world.choose() == ["urgent", "older", "old"]
    reason, message = world.told.reasons["young"]
    assert reason == "InsufficientCapacity"
    assert "nvidia.com/gpu: 1 asked, 0 free" in message


async def test_a_small_pod_is_taken_when_a_larger_one_before_it_has_no_room() -> None:
    world = World(make_pod("large", cpu="8", age=30), make_pod("small", cpu="1"))
    world.ledger.reserve("other", {CPU: Quantity.parse("58"), GPU: Quantity.parse("1")})
    assert await world.choose() == ["small"]
    assert "cpu: 8 asked, 5 free" in world.told.reasons["large"][1]


async def test_a_pod_is_taken_once_when_its_binding_is_under_way() -> None:
    world = World(make_pod("one"))
    assert await world.choose() == ["one"]
    assert await world.choose() == []


async def test_nothing_is_taken_when_the_node_takes_no_new_pods() -> None:
    world = World(make_pod("one"))
    world.hold = Refusal("ProviderUnreachable", "no new pods: connection refused")
    assert await world.choose() == []
    assert world.told.reasons["one"] == ("ProviderUnreachable", "no new pods: connection refused")
    world.hold = None
    assert await world.choose() == ["one"]


@pytest.mark.parametrize(
    "fields",
    [
        {"schedulerName": "default-scheduler"},
        {"nodeName": "k8s.gpu"},
        {"schedulingGates": [{"name": "example.org/wait"}]},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_a_pod_is_left_alone_when_it_is_not_ours_to_bind(fields: dict[str, Any]) -> None:
    world = World(make_pod("one", **fields))
    assert await world.choose() == []
    assert world.told.reasons == {}


async def test_limit_and_amount_are_told_when_a_pod_is_above_its_shape() -> None:
    world = World(make_pod("one", cpu="9"))
    assert await world.choose() == []
    reason, message = world.told.reasons["one"]
    assert reason == "RuntimeClassLimitExceeded"
    assert "cpu" in message
    assert "9" in message
    assert "8" in message


async def test_others_are_taken_when_a_pod_cannot_be_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_for_one(pod: dict[str, Any]) -> Any:
        if pod["metadata"]["name"] == "broken":
            raise RecursionError
        return find_demand(pod)

    monkeypatch.setattr("runyard.node.binder.find_demand", fail_for_one)
    world = World(make_pod("broken", age=30), make_pod("whole"))
    assert await world.choose() == ["whole"]


async def test_a_pod_is_judged_again_when_the_offer_changes() -> None:
    world = World(make_pod("one", cpu="9"))
    assert await world.choose() == []
    world.shapes = {"one": Shape("one", "nvidia", {**SHAPE.limits, CPU: Quantity.parse("16")})}
    assert await world.choose() == ["one"]


async def test_offered_classes_are_named_when_the_pods_class_is_gone() -> None:
    world = World(make_pod("one", runtimeClassName="two"))
    assert await world.choose() == []
    assert world.told.reasons["one"] == (
        "RuntimeClassNotOffered",
        "runtimeClassName 'two' is not offered by node k8s.gpu; offered: one",
    )


async def test_a_wake_is_not_lost_when_it_comes_before_the_wait() -> None:
    world = World()
    world.binder.wake()
    async with asyncio.timeout(1):
        await world.binder._awake.wait()
