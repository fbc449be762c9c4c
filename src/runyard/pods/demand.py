"""Resource requests and limits of a pod, as Kubernetes counts them for scheduling and quotas.

Computes `PodRequests` and `PodLimits` of Kubernetes, over pods with the apiserver's defaults: a limit without a request
is also the request, amounts are rounded up to thousandths.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_UP, Context, Decimal
from typing import Any, Literal

from runyard.pods.fields import Part, UnreadablePod, read_part, unreadable
from runyard.spec.kubernetes.quantity import Quantity, QuantityError
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem

Amounts = dict[str, Quantity]
_Side = Literal["requests", "limits"]

_SUMMED_AT_POD_LEVEL = frozenset({"cpu", "memory"})
_HUGE_PAGES = "hugepages-"
_MILLI = Decimal("0.001")
_FREE = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


def pod_requests(pod: Mapping[str, Any], *, apply_defaults: bool = True) -> Amounts:
    """The requests of a pod, by resource. Takes a Pod, a pod template or a pod's spec.

    `apply_defaults` applies the apiserver's defaults for a new pod first; a pod from the apiserver has them already.
    Raises `UnreadablePod`, a ValueError that names the field.
    """
    read = _read(pod, apply_defaults=apply_defaults)
    total = _sum_containers(read, "requests")
    total |= {name: amount for name, amount in read.whole.requests.items() if _is_pod_level(name)}
    return _add(total, read.overhead)


def pod_limits(pod: Mapping[str, Any], *, apply_defaults: bool = True) -> Amounts:
    """The limits of a pod, by resource: the sum over the containers that have a limit.

    Takes and raises the same as `pod_requests`.
    """
    read = _read(pod, apply_defaults=apply_defaults)
    total = _sum_containers(read, "limits")
    total |= {name: amount for name, amount in read.whole.limits.items() if _is_pod_level(name)}
    limited = {name: amount for name, amount in read.overhead.items() if name in total and not total[name].is_zero}
    return _add(total, limited)


@dataclass(frozen=True, slots=True)
class _Resources:
    requests: Amounts
    limits: Amounts
    is_sidecar: bool = False

    def side(self, side: _Side) -> Amounts:
        return self.requests if side == "requests" else self.limits


@dataclass(frozen=True, slots=True)
class _Pod:
    containers: tuple[_Resources, ...]
    init_containers: tuple[_Resources, ...]
    whole: _Resources
    """Pod-level resources, which replace the sums of the containers."""
    overhead: Amounts


def _sum_containers(pod: _Pod, side: _Side) -> Amounts:
    """The larger of: all containers and sidecars; the largest init container with the sidecars started before it."""
    total: Amounts = {}
    for container in pod.containers:
        total = _add(total, container.side(side))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in pod.init_containers:
        amounts = container.side(side)
        if container.is_sidecar:
            total = _add(total, amounts)
            sidecars = _add(sidecars, amounts)
            peak = _largest(peak, sidecars)
        else:
            peak = _largest(peak, _add(amounts, sidecars))
    return _largest(total, peak)


def _add(left: Amounts, right: Amounts) -> Amounts:
    return left | {name: _plus(left[name], amount) if name in left else amount for name, amount in right.items()}


def _plus(left: Quantity, right: Quantity) -> Quantity:
    try:
        return left + right
    except QuantityError as error:
        raise UnreadablePod(Problem(Code.QUANTITY_SUM, ("spec",), str(error))) from error


def _largest(left: Amounts, right: Amounts) -> Amounts:
    return left | {name: amount for name, amount in right.items() if name not in left or amount > left[name]}


def _is_pod_level(name: str) -> bool:
    return name in _SUMMED_AT_POD_LEVEL or name.startswith(_HUGE_PAGES)


def _complete(pod: _Pod) -> _Pod:
    """Apply the apiserver's defaults, in its order: containers, pod-level resources, rounding."""
    pod = replace(
        pod,
        containers=tuple(map(_request_limits, pod.containers)),
        init_containers=tuple(map(_request_limits, pod.init_containers)),
    )
    pod = replace(pod, whole=_complete_whole(pod))
    return _Pod(
        containers=tuple(map(_round_resources, pod.containers)),
        init_containers=tuple(map(_round_resources, pod.init_containers)),
        whole=_round_resources(pod.whole),
        overhead=_round_amounts(pod.overhead),
    )


def _request_limits(container: _Resources) -> _Resources:
    return replace(container, requests=container.limits | container.requests)


def _complete_whole(pod: _Pod) -> _Resources:
    """Defaults of pod-level resources: limits of huge pages from the containers' sum, then requests from limits."""
    requests, limits = pod.whole.requests, pod.whole.limits
    if requests or limits:
        sums = _sum_containers(pod, "limits")
        huge_pages = {name for name in sums if name.startswith(_HUGE_PAGES)} - requests.keys()
        limits = {name: sums[name] for name in huge_pages} | limits
    if not limits:
        return pod.whole
    sums = _sum_containers(pod, "requests")
    from_sums = {name: amount for name, amount in sums.items() if name in _SUMMED_AT_POD_LEVEL}
    from_limits = {name: amount for name, amount in limits.items() if _is_pod_level(name)}
    return _Resources(requests=from_limits | from_sums | requests, limits=limits)


def _round_resources(resources: _Resources) -> _Resources:
    requests, limits = _round_amounts(resources.requests), _round_amounts(resources.limits)
    return replace(resources, requests=requests, limits=limits)


def _round_amounts(amounts: Amounts) -> Amounts:
    return {name: _round_up(amount) for name, amount in amounts.items()}


def _round_up(amount: Quantity) -> Quantity:
    if int(amount.exact.as_tuple().exponent) >= -3:
        return amount
    return replace(amount, exact=amount.exact.quantize(_MILLI, ROUND_UP, _FREE))


def _read(given: Mapping[str, Any], *, apply_defaults: bool) -> _Pod:
    spec = _find_spec(read_part(given))
    pod = _Pod(
        containers=tuple(_read_containers(spec, "containers")),
        init_containers=tuple(_read_containers(spec, "initContainers")),
        whole=_read_resources(spec),
        overhead=_read_amounts(spec, "overhead"),
    )
    return _complete(pod) if apply_defaults else pod


def _find_spec(part: Part) -> Part:
    if "containers" in part.values:
        return part
    spec = part.find_part("spec")
    if spec is None:
        raise UnreadablePod(
            Problem(Code.FIELD_MISSING, (*part.path, "spec"), "a pod needs `spec`", allowed="a pod's spec")
        )
    return spec


def _read_containers(spec: Part, name: str) -> Iterable[_Resources]:
    for container in spec.read_parts(name):
        is_sidecar = container.find_text("restartPolicy") == "Always"
        yield replace(_read_resources(container), is_sidecar=is_sidecar)


def _read_resources(owner: Part) -> _Resources:
    resources = owner.find_part("resources") or Part({}, owner.path)
    return _Resources(_read_amounts(resources, "requests"), _read_amounts(resources, "limits"))


def _read_amounts(owner: Part, name: str) -> Amounts:
    part = owner.find_part(name)
    return {} if part is None else {key: read_quantity(part, key) for key in part.values}


def read_quantity(part: Part, name: str) -> Quantity:
    """The quantity under `name`; null reads as zero. Raises `UnreadablePod`."""
    given = part.values[name]
    if given is None:
        return Quantity.from_int(0)
    path = (*part.path, name)
    if isinstance(given, bool) or not isinstance(given, (str, int, float)):
        raise unreadable(given, path, allowed="a quantity")
    try:
        # Kubernetes' decoder strips spaces around quantities only.
        return Quantity.parse(given.strip(" ") if isinstance(given, str) else given)
    except QuantityError as error:
        problem = Problem(Code.QUANTITY_INVALID, path, str(error), suggestion=error.suggestion)
        raise UnreadablePod(problem) from error
