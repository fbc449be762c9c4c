"""Generates pods with any mixture of containers, sidecars, overhead and pod-level resources, from one seed."""

import copy
import random
from collections.abc import Iterator
from typing import Any

Document = dict[str, Any]

RESOURCES = (
    "cpu",
    "memory",
    "ephemeral-storage",
    "hugepages-2Mi",
    "hugepages-1Gi",
    "nvidia.com/gpu",
    "example.com/licence",
)
AMOUNTS = (
    *("0", "100m", "0.5", ".5", "1", "2", "1500m", "+3", "64", "4.0", 0, 1, 8, 1.5, 2.0, " 2 "),
    *("1Gi", "512Mi", "1.5Gi", "0.3Ki", "32G", "5k", "1e3", "12E6", "1e-3", "2Ti", "500M"),
    *("0.1m", "100u", "1n", "0.0005", "1.0000001", "999999999n", "3.3Mi", "1.1Ki"),
    *("9Ei", "100Ei", "9223372036854775807", "1e20", "123456789012345678901", "999E", "0.123456789123"),
    *("-1", "-500m", "-1.5Gi", "-0.1m", None),
)
DAMAGE: tuple[Any, ...] = (None, True, 0, 1.5, "", "x", "1 Gi", "1gi", [], {}, [1], {"cpu": "1"}, {"cpu": []}, [None])


def make_pod(chance: random.Random) -> Document:
    spec: Document = {"containers": [_make_container(chance) for _ in range(chance.randint(1, 4))]}
    if chance.random() < 0.7:
        spec["initContainers"] = [_make_init_container(chance) for _ in range(chance.randint(0, 4))]
    if chance.random() < 0.4:
        spec["overhead"] = _make_amounts(chance)
    if chance.random() < 0.5:
        spec["resources"] = _make_resources(chance)
    return {"spec": spec}


def damage_pod(chance: random.Random, pod: Document) -> Document:
    """A copy with one value of the resources replaced."""
    damaged = copy.deepcopy(pod)
    owner, key = chance.choice(list(_iter_places(damaged["spec"])))
    owner[key] = copy.deepcopy(chance.choice(DAMAGE))
    return damaged


def _make_container(chance: random.Random) -> Document:
    return {"name": "c", **({"resources": _make_resources(chance)} if chance.random() < 0.9 else {})}


def _make_init_container(chance: random.Random) -> Document:
    policy = chance.choice(("Always", "Always", None, "absent"))
    return _make_container(chance) | ({} if policy == "absent" else {"restartPolicy": policy})


def _make_resources(chance: random.Random) -> Document | None:
    sides = {side: _make_amounts(chance) for side in ("requests", "limits") if chance.random() < 0.7}
    return sides if chance.random() < 0.95 else None


def _make_amounts(chance: random.Random) -> Document | None:
    names = chance.sample(RESOURCES, k=chance.randint(0, 4))
    return {name: chance.choice(AMOUNTS) for name in names} if chance.random() < 0.95 else None


def _iter_places(node: Any) -> Iterator[tuple[Any, Any]]:
    members = list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node, list) else []
    for key, member in members:
        if key != "name":
            yield node, key
            yield from _iter_places(member)
