"""Pods and shapes for the tests of admission."""

from typing import Any

from hypothesis import strategies as st

from runyard.node.amounts import count_up
from runyard.node.offer import CPU, GPU, MEMORY, Amounts, Shape
from runyard.spec.kubernetes.quantity import Quantity

Object = dict[str, Any]


def parse(**texts: str) -> Amounts:
    names = {"cpu": CPU, "memory": MEMORY, "gpu": GPU}
    return {names[key]: Quantity.parse(text) for key, text in texts.items()}


ONE = Shape("seeweb-nvidia-1xa6000", "nvidia", parse(cpu="8000m", memory="32861620Ki", gpu="1"))
TWO = Shape("seeweb-nvidia-2xa6000", "nvidia", parse(cpu="16000m", memory="64Gi", gpu="2"))


def container(name: str = "nvidia", *, requests: Object | None = None, always: bool = False, **limits: Any) -> Object:
    """`gpu` stands for `nvidia.com/gpu`."""
    named = {GPU if key == "gpu" else key: value for key, value in limits.items()}
    resources = ({"limits": named} if named else {}) | ({"requests": requests} if requests else {})
    restart = {"restartPolicy": "Always"} if always else {}
    return {"name": name, "image": "nvidia/cuda", "resources": resources} | restart


def pod(*containers: Object, init: list[Object] | None = None, **spec: Any) -> Object:
    inits = {"initContainers": init} if init is not None else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "nvidia-smi", "namespace": "default", "uid": "1"},
        "spec": {"restartPolicy": "OnFailure", "containers": list(containers), **inits, **spec},
    }


_cpus = st.sampled_from(["0", "1m", "100m", "1", "2500m", "3", "8", "9"])
_memories = st.sampled_from(["0", "1", "1Ki", "1500", "1Gi", "16Gi", "32861620Ki", "40Gi"])
_sides = st.fixed_dictionaries({}, optional={"cpu": _cpus, "memory": _memories})


@st.composite
def _containers(draw: st.DrawFn, *, is_init: bool) -> Object:
    made = container(draw(st.sampled_from("abc")), always=is_init and draw(st.booleans()))
    limits, requests = draw(_sides), draw(_sides)
    if draw(st.integers(0, 4)) == 0:
        limits[GPU] = draw(st.sampled_from(["0", "1", "2"]))
    # The apiserver refuses a request above its limit.
    requests = {
        name: text
        for name, text in requests.items()
        if name not in limits
        or count_up(name, parse(**{name: text})[name]) <= count_up(name, parse(**{name: limits[name]})[name])
    }
    made["resources"] = {"limits": limits, "requests": requests}
    return made


@st.composite
def generated_pods(draw: st.DrawFn) -> Object:
    whole = draw(st.none() | st.none() | _sides.map(lambda limits: {"limits": limits}))
    return pod(
        *draw(st.lists(_containers(is_init=False), min_size=1, max_size=4)),
        init=draw(st.lists(_containers(is_init=True), max_size=4)),
        **({"resources": whole} if whole else {}),
    )
