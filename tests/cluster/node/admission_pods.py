"""Pods whose filling by the apiserver is compared with `filling.py`: written by hand, and generated."""

import random
from typing import Any

from runyard.node.offer import GPU

Object = dict[str, Any]

CLASS = "seeweb-nvidia-1xa6000"
_CPUS = ("0", "1m", "100m", "0.3", "1", "2500m", "7999m", "8", "9")
_MEMORIES = ("0", "1", "1000", "1Ki", "1500", "1G", "16Gi", "32861620Ki", "40Gi")


def container(name: str = "main", *, requests: Object | None = None, **limits: Any) -> Object:
    """`gpu` stands for `nvidia.com/gpu`."""
    named = {GPU if key == "gpu" else key: str(value) for key, value in limits.items()}
    resources = ({"limits": named} if named else {}) | ({"requests": requests} if requests else {})
    return {"name": name, "image": "nvidia/cuda"} | ({"resources": resources} if resources else {})


def sidecar(name: str, **amounts: Any) -> Object:
    return container(name, **amounts) | {"restartPolicy": "Always"}


def pod(*containers: Object, init: list[Object] | None = None, **spec: Any) -> Object:
    return {
        "metadata": {"generateName": "pod-"},
        "spec": {
            "runtimeClassName": CLASS,
            "restartPolicy": "OnFailure",
            "containers": list(containers),
            **({"initContainers": init} if init else {}),
            **spec,
        },
    }


def _with_env(given: Object) -> Object:
    """With one variable twice, which is legal."""
    return given | {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}


WRITTEN: dict[str, Object] = {
    "nothing is stated": pod(container()),
    "the seed's first pod": pod(container(gpu=1)),
    "the seed's second pod": pod(container(gpu=1, memory="16Gi", cpu=2)),
    "the seed's pod above its class": pod(container(gpu=2, memory="64Gi", cpu=1)),
    "a container with zero GPUs": pod(container("ollama", gpu=1), container("webui", gpu=0)),
    "only zero GPUs": pod(container("a", gpu=0), container("b")),
    "GPU in an init container": pod(container("a"), init=[container("i", gpu=1)]),
    "GPU in a sidecar": pod(container("a"), init=[sidecar("s", gpu=1)]),
    "one variable twice": pod(
        _with_env(container("a")), _with_env(container("b", gpu=1)), init=[_with_env(sidecar("s"))]
    ),
    "seven share": pod(*(container(f"c{number}") for number in range(7))),
    "some state cpu, others memory": pod(container("a", cpu="1500m"), container("b", memory="1Gi"), container("c")),
    "requests only": pod(container("a", requests={"cpu": "3", "memory": "1Gi"}), container("b")),
    "requests below limits": pod(container("a", cpu=6, requests={"cpu": "1"}), container("b")),
    "sidecars and init containers": pod(
        container("a", cpu=4),
        init=[container("i"), sidecar("s", cpu=1), container("j", memory="1Gi"), sidecar("t")],
    ),
    "an init container leaves little to sidecars": pod(
        container("a", cpu=1), container("b"), init=[sidecar("s"), container("i", cpu=7, memory="31Gi"), sidecar("t")]
    ),
    "an init container states all": pod(container("a"), init=[container("i", cpu=8), sidecar("s")]),
    "nothing is left": pod(container("a", cpu=8, memory="32861620Ki"), container("b")),
    "almost nothing is left": pod(container("a", cpu="7999m", memory="32861619Ki"), container("b"), container("c")),
    "too much is stated": pod(container("a", cpu=9, memory="64Gi"), container("b"), init=[container("i")]),
    "sidecars take all": pod(container("a"), init=[sidecar("s", cpu=8, memory="40Gi"), container("i")]),
    "fractions": pod(container("a", cpu="0.1", memory="1500m"), container("b", cpu="0.0001"), container("c")),
    "exponents": pod(
        container("a", cpu="1e0", memory="1e9"), container("b", cpu="5E-1", memory="0.5Gi"), container("c")
    ),
    "monstrous": pod(container("a", cpu="1e30", memory="9E"), container("b"), init=[container("i")]),
    "memory of the whole pod": pod(container("a"), init=[container("i")], resources={"limits": {"memory": "2Gi"}}),
    "cpu of the whole pod": pod(container("a", gpu=1), container("b"), resources={"requests": {"cpu": "2"}}),
    "both of the whole pod": pod(container("a"), resources={"limits": {"cpu": "2", "memory": "2Gi"}}),
    "another scheduler": pod(container("a"), schedulerName="volcano"),
    "other resources": pod(container("a", requests={"ephemeral-storage": "1Gi"}), container("b", gpu=1)),
}


def generate_pods(seed: int, count: int) -> list[Object]:
    """Valid pods of one to four containers and up to three init containers."""
    chance = random.Random(seed)
    return [_generate(chance) for _ in range(count)]


def _generate(chance: random.Random) -> Object:
    containers = [container(f"c{number}", **_amounts(chance)) for number in range(chance.randint(1, 4))]
    makers = (container, sidecar)
    inits = [chance.choice(makers)(f"i{number}", **_amounts(chance)) for number in range(chance.randint(0, 3))]
    return pod(*containers, init=inits)


def _amounts(chance: random.Random) -> Object:
    limits: Object = {}
    requests: Object = {}
    for name, texts in (("cpu", _CPUS), ("memory", _MEMORIES)):
        where = chance.choice(("none", "none", "limits", "requests", "both"))
        if where in ("limits", "both"):
            limits[name] = chance.choice(texts)
        if where == "requests":
            requests[name] = chance.choice(texts)
        if where == "both":
            requests[name] = "0"
    if chance.random() < 0.2:
        limits["gpu"] = chance.choice((0, 1, 2))
    return {**limits, "requests": requests}
