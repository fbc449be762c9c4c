"""Why a pod cannot run on the node, whoever created it and however it came: decided from its spec alone.

No annotation or label counts as proof that a pod was filled: every user may write those. A pod was filled if there is
nothing left to fill. Room on the node is the ledger's question, not this one's.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from runyard.node.admission.filling import (
    ContainerFacts,
    Filling,
    find_pod_level,
    plan_fillings,
    read_containers,
    read_spec,
)
from runyard.node.admission.placement import check_placement
from runyard.node.admission.refusal import Refusal
from runyard.node.admission.unsupported_fields import check_fields
from runyard.node.amounts import count_down, count_up, format_amount
from runyard.node.offer import CPU, MEMORY, Amounts, Shape
from runyard.pods.demand import pod_requests
from runyard.pods.fields import UnreadablePod
from runyard.pods.security import check_pod_security, format_violations
from runyard.spec.problems import list_words, shorten

MOST_REFUSALS = 20
"""Refusals of one pod; the others would not be read."""
_MOST_NAMES = 5
_CURE = "was the admission of this node missing when the pod was created? Delete it and create it again"


def judge_pod(
    pod: Mapping[str, Any],
    shape: Shape,
    *,
    node_name: str,
    node_labels: Mapping[str, str],
    scheduler_name: str | None = None,
    allows_tokens: bool = False,
    pod_security_version: str = "latest",
) -> tuple[Refusal, ...]:
    """Every reason why the pod cannot run on the node, the decisive one first; empty if it can.

    `scheduler_name`: the one that admission sets. Never raises: a pod that cannot be read is refused.
    """
    try:
        refusals = [
            *_check_gates(pod),
            *_check_scheduler(pod, scheduler_name),
            *_check_resources(pod, shape),
            *_check_security(pod, pod_security_version),
            *check_fields(pod, read_spec(pod), allows_tokens=allows_tokens),
            *check_placement(read_spec(pod), node_name=node_name, labels=node_labels),
        ]
    except UnreadablePod as error:
        return (Refusal("UnreadablePod", f"the pod cannot be read, so it is not run: {error.problem}"),)
    return tuple(refusals[:MOST_REFUSALS])


def find_requests(pod: Mapping[str, Any]) -> Amounts:
    """What the default scheduler counts of a pod, where it binds: its requests. Raises `UnreadablePod`."""
    read_containers(pod)
    return pod_requests(pod["spec"])


def find_demand(pod: Mapping[str, Any]) -> Amounts:
    """What the ledger reserves for a pod: per container limits, or else requests. Raises `UnreadablePod`.

    Summed as Kubernetes does: the larger of what runs together and what the init containers need; pod-level resources
    instead of the sum, if there are any; the overhead besides.
    """
    read_containers(pod)  # refuses what is not a mapping, before it is taken apart below
    spec = pod["spec"]
    lists = ("containers", "initContainers")
    simple = {
        name: [
            {"restartPolicy": container.get("restartPolicy"), **_merge_sides(container)}
            for container in map(_null_to_empty, spec.get(name) or ())
        ]
        for name in lists
    }
    return pod_requests({**simple, **_merge_sides(spec), "overhead": spec.get("overhead")})


def _null_to_empty(given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return {} if given is None else given


def _merge_sides(owner: Mapping[str, Any]) -> dict[str, Any]:
    resources = owner.get("resources") or {}
    return {"resources": {"requests": {**(resources.get("requests") or {}), **(resources.get("limits") or {})}}}


def _check_gates(pod: Mapping[str, Any]) -> Iterator[Refusal]:
    gates = [gate.read_text("name") for gate in read_spec(pod).read_parts("schedulingGates")]
    if gates:
        message = f"spec.schedulingGates: the pod waits until its gates are removed ({_list_names(gates)})"
        yield Refusal("SchedulingGated", message)


def _check_scheduler(pod: Mapping[str, Any], scheduler_name: str | None) -> Iterator[Refusal]:
    given = read_spec(pod).read_text("schedulerName")
    if scheduler_name is not None and given != scheduler_name:
        message = f"spec.schedulerName is {shorten(given) or 'empty'}, not {scheduler_name}: {_CURE}"
        yield Refusal("NotFilledAtAdmission", message)


def _check_resources(pod: Mapping[str, Any], shape: Shape) -> Iterator[Refusal]:
    containers, of_pod, demand = read_containers(pod), find_pod_level(pod), find_demand(pod)
    above = [name for name in shape.limits if _is_above(name, demand, shape.limits)]
    for name in above:
        asked, limit = format_amount(name, demand[name]), format_amount(name, shape.limits[name])
        message = f"the pod asks for {asked} of {name}; the limit of the RuntimeClass {shape.name} is {limit}"
        yield Refusal("RuntimeClassLimitExceeded", message)
    for name in shape.largest_machine:
        if _is_above(name, demand, shape.largest_machine):
            asked, most = format_amount(name, demand[name]), format_amount(name, shape.largest_machine[name])
            message = f"the pod asks for {asked} of {name}; the largest machine for {shape.name} has {most}"
            yield Refusal("FitsOnNoMachine", message)
    fillings = plan_fillings(pod, shape)
    if fillings:
        yield _refuse_unfilled(containers, fillings)
    filled = {(filling.list_name, filling.index, filling.resource) for filling in fillings}
    for name in (CPU, MEMORY):
        if name not in shape.limits or name in of_pod or name in above:
            continue
        empty = [
            container.name
            for container in containers
            if name not in container.states and (container.list_name, container.index, name) not in filled
        ]
        if empty:
            limit = format_amount(name, shape.limits[name])
            message = f"no {name} is left for {_list_names(empty)}: the others take all of {limit} of {shape.name}"
            yield Refusal("RuntimeClassLimitExceeded", message)


def _is_above(name: str, demand: Amounts, limits: Amounts) -> bool:
    return name in demand and count_up(name, demand[name]) > count_down(name, limits[name])


def _refuse_unfilled(containers: Sequence[ContainerFacts], fillings: Sequence[Filling]) -> Refusal:
    names = {(container.list_name, container.index): container.name for container in containers}
    unfilled = _list_names(dict.fromkeys(names[filling.list_name, filling.index] for filling in fillings))
    resources = ", ".join(dict.fromkeys(filling.resource for filling in fillings))
    return Refusal("NotFilledAtAdmission", f"resources were not filled in ({resources} of {unfilled}): {_CURE}")


def _check_security(pod: Mapping[str, Any], version: str) -> Iterator[Refusal]:
    violations = check_pod_security(pod, level="baseline", version=version)
    if violations:
        message = f'violates PodSecurity "baseline:{version}": {format_violations(violations)}'
        yield Refusal("PodSecurityViolation", message)


def _list_names(names: Iterable[str]) -> str:
    return list_words(map(shorten, names), most=_MOST_NAMES)
