"""The resources that a pod gets from its shape where it states none. `policies.py` says the same in CEL.

A container *states* a resource if its limits or its requests have it; the amount is the limit, or else the request.

- **GPU.** If no container of the pod states it, init containers included, the first container gets all GPUs of the
  shape. Otherwise nothing is added: a container that states 0, or nothing beside one that does, gets none.
- **cpu and memory**, each by itself. Containers and sidecars (init containers that restart always) run together. What
  the shape has, without what they state, is shared equally among those of them that state none, rounded down to whole
  millicores or whole Ki. But sidecars also run beside the other init containers: all that state none get no more than
  the shape has without what the other sidecars and the largest init container state. Every other init container that
  states none gets the shape's limit without what all sidecars hold, stated or filled.
- **Nothing is left**, or less than one millicore or Ki for each: nothing is filled. `judgement.py` refuses such a pod,
  because its own figures leave nothing for a container.
- **Pod-level resources** (`spec.resources`): a resource that they state is not filled in any container.
- Only `limits` are filled. The apiserver copies them to the requests, so that quotas count them.
- `overhead` is not subtracted: the node's RuntimeClasses have none, and the apiserver refuses a pod that differs.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from runyard.node.amounts import KIBIBYTE, count_down, count_up
from runyard.node.offer import CPU, GPU, MEMORY, Shape
from runyard.pods.demand import read_quantity
from runyard.pods.fields import Part, UnreadablePod, read_part
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem

Object = dict[str, Any]
ListName = Literal["containers", "initContainers"]

MOST_CONTAINERS = 1000
"""Containers of a pod that are looked at; a pod with more is unreadable."""
_SHARED = (CPU, MEMORY)


@dataclass(frozen=True, slots=True)
class Filling:
    """One limit that a container gets."""

    list_name: ListName
    index: int
    resource: str
    text: str


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """What the rules need to know of a container."""

    list_name: ListName
    index: int
    name: str
    is_sidecar: bool
    states: Mapping[str, Quantity]

    @property
    def runs_along(self) -> bool:
        """Whether it runs at the same time as the containers: one of them, or a sidecar."""
        return self.list_name == "containers" or self.is_sidecar


def plan_fillings(pod: Mapping[str, Any], shape: Shape) -> tuple[Filling, ...]:
    """What to fill into a Pod; empty if it states everything, or nothing is left. Raises `UnreadablePod`."""
    containers = read_containers(pod)
    of_pod = find_pod_level(pod)
    fillings = _fill_gpus(containers, shape)
    for resource in _SHARED:
        if resource not in of_pod and resource in shape.limits:
            fillings += _share(containers, resource, count_down(resource, shape.limits[resource]))
    return tuple(fillings)


def fill_pod(pod: Mapping[str, Any], fillings: Sequence[Filling]) -> Object:
    """A copy of the pod with the fillings."""
    filled = copy.deepcopy(dict(pod))
    for filling in fillings:
        container = filled["spec"][filling.list_name][filling.index]
        resources = container.get("resources") or {}
        limits = {**(resources.get("limits") or {}), filling.resource: filling.text}
        container["resources"] = {**resources, "limits": limits}
    return filled


def read_containers(pod: Mapping[str, Any]) -> list[ContainerFacts]:
    """All containers and init containers, in order. Raises `UnreadablePod`."""
    spec = read_spec(pod)
    names: tuple[ListName, ...] = ("containers", "initContainers")
    found = [
        ContainerFacts(
            list_name=list_name,
            index=index,
            name=part.read_text("name"),
            is_sidecar=list_name == "initContainers" and part.find_text("restartPolicy") == "Always",
            states=_read_stated(part),
        )
        for list_name in names
        for index, part in enumerate(_read_parts(spec, list_name))
    ]
    if not any(container.list_name == "containers" for container in found):
        raise UnreadablePod(Problem(Code.FIELD_MISSING, ("spec", "containers"), "a pod needs a container"))
    return found


def find_pod_level(pod: Mapping[str, Any]) -> frozenset[str]:
    """The resources that the pod states as a whole, in `spec.resources`."""
    return frozenset(_read_stated(read_spec(pod)))


def _fill_gpus(containers: Sequence[ContainerFacts], shape: Shape) -> list[Filling]:
    count = count_down(GPU, shape.limits[GPU]) if GPU in shape.limits else 0
    if not count or any(GPU in container.states for container in containers):
        return []
    return [Filling("containers", 0, GPU, str(count))]


def _share(containers: Sequence[ContainerFacts], resource: str, limit: int) -> list[Filling]:
    unit = KIBIBYTE if resource == MEMORY else 1
    running = [container for container in containers if container.runs_along]
    sidecars = [container for container in running if container.is_sidecar]
    inits = [container for container in containers if not container.runs_along]
    share = _divide(limit - _sum_stated(running, resource), _list_open(running, resource), unit)
    largest_init = max((_count_stated(container, resource) for container in inits), default=0)
    left_by_inits = limit - _sum_stated(sidecars, resource) - largest_init
    sidecar_share = min(share, _divide(left_by_inits, _list_open(sidecars, resource), unit))
    held = _sum_stated(sidecars, resource) + sidecar_share * len(_list_open(sidecars, resource))
    for_inits = max(0, limit - held) // unit * unit
    fillings = [
        _fill(container, resource, sidecar_share if container.is_sidecar else share)
        for container in _list_open(running, resource)
    ]
    fillings += [_fill(container, resource, for_inits) for container in _list_open(inits, resource)]
    return [filling for filling in fillings if filling is not None]


def _divide(left: int, among: Sequence[ContainerFacts], unit: int) -> int:
    return max(0, left) // len(among) // unit * unit if among else 0


def _list_open(containers: Sequence[ContainerFacts], resource: str) -> list[ContainerFacts]:
    return [container for container in containers if resource not in container.states]


def _sum_stated(containers: Sequence[ContainerFacts], resource: str) -> int:
    return sum(_count_stated(container, resource) for container in containers)


def _fill(container: ContainerFacts, resource: str, count: int) -> Filling | None:
    if not count:
        return None
    text = f"{count // KIBIBYTE}Ki" if resource == MEMORY else f"{count}m"
    return Filling(container.list_name, container.index, resource, text)


def _count_stated(container: ContainerFacts, resource: str) -> int:
    return count_up(resource, container.states[resource]) if resource in container.states else 0


def read_spec(pod: Mapping[str, Any]) -> Part:
    """The spec of a Pod. Raises `UnreadablePod`."""
    spec = read_part(pod).find_part("spec")
    if spec is None:
        raise UnreadablePod(Problem(Code.FIELD_MISSING, ("spec",), "a pod needs `spec`"))
    return spec


def _read_parts(spec: Part, name: str) -> tuple[Part, ...]:
    given = spec.values.get(name)
    if isinstance(given, list) and len(given) > MOST_CONTAINERS:
        raise UnreadablePod(
            Problem(
                Code.SIZE_ENTRIES, ("spec", name), f"has {len(given)} entries", allowed=f"at most {MOST_CONTAINERS}"
            )
        )
    return spec.read_parts(name)


def _read_stated(owner: Part) -> dict[str, Quantity]:
    resources = owner.find_part("resources")
    if resources is None:
        return {}
    sides = [resources.find_part(side) for side in ("requests", "limits")]
    return {name: read_quantity(part, name) for part in sides if part is not None for name in part.values}
