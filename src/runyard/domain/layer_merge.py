"""Merges the layers, field by field: the merge rules of «Who wins»."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from runyard.domain.board import Board, Offer, format_value
from runyard.domain.effective_spec import Owner
from runyard.spec.kinds.function_kind import FunctionKind
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem
from runyard.spec.resources import LIMITS, REQUESTS, Sides, is_device
from runyard.spec.run_fields import RunFields

_NOUNS = {REQUESTS: "request", LIMITS: "limit"}
WORKLOADS = {"job": "jobs", "serve": "services", "deploy": "deployments", "build": "builds"}

INAPPLICABLE_FIELDS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "job": frozenset(
            {"replicas", "service_ports", "service_type", "service_name", "readiness_path", "init_parameters"}
        ),
        "serve": frozenset({"backoff_limit", "disruptions", "timeout", "ttl"}),
        "deploy": frozenset(
            {
                *("backoff_limit", "disruptions", "timeout", "ttl"),
                *("service_ports", "service_type", "service_name", "readiness_path"),
            }
        ),
        "build": frozenset(
            {"replicas", "service_ports", "service_type", "service_name", "readiness_path", "init_parameters"}
        ),
    }
)
"""Fields that have no effect on an action. A user who sets one is warned; a profile may serve several actions."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One owner's fields."""

    owner: Owner
    source: str
    fields: RunFields


@dataclass(frozen=True, slots=True)
class Setting:
    """What the merge rules depend on: action and kind of the run, and the admin's names for GPUs."""

    action: str
    kind: FunctionKind
    gpu_resources: tuple[str, ...]


def put_layer(board: Board, layer: Layer, setting: Setting) -> None:
    """Merge one layer over the weaker ones."""
    for name, value in layer.fields.__dict__.items():
        is_blank = value is None or (not value and not isinstance(value, int))
        if is_blank or name == "profile":
            continue
        if name in INAPPLICABLE_FIELDS[setting.action] or name in setting.kind.inapplicable_fields:
            _warn_inapplicable(board, layer, name, value, setting)
            continue
        put = _PUTTERS.get(name)
        if name == "resources":
            _put_resources(board, layer, value, setting.gpu_resources)
        elif put is None:
            board.put((name,), Offer(value, layer.owner, layer.source))
        else:
            put(board, layer, value)


def _warn_inapplicable(board: Board, layer: Layer, name: str, value: Any, setting: Setting) -> None:
    offer = Offer(value, layer.owner, layer.source)
    if offer.is_users:
        what = (
            WORKLOADS[setting.action]
            if name in INAPPLICABLE_FIELDS[setting.action]
            else f"{setting.kind.name} functions"
        )
        message = f"`{name}` has no effect on {what}; ignored"
        board.warnings.append(Problem(Code.FIELD_POINTLESS, (name,), message))


def _put_map(name: str) -> Callable[[Board, Layer, Mapping[str, str]], None]:
    def put(board: Board, layer: Layer, value: Mapping[str, str]) -> None:
        for key, entry in value.items():
            board.put((name, key), Offer(entry, layer.owner, layer.source))

    return put


def _put_resources(board: Board, layer: Layer, value: Mapping[str, Sides], gpu_names: tuple[str, ...]) -> None:
    gpus = [name for name in value if name == "gpu" or name in gpu_names]
    if len(gpus) > 1:
        message = f"{layer.source} requests GPUs under {len(gpus)} names: {', '.join(gpus)}"
        board.refusals.append(Problem(Code.RESOURCES_GPUS, ("resources",), message, allowed="one of them"))
    for name, sides in value.items():
        if name in gpus:
            _put_gpus(board, layer, name, sides)
        elif name == "disk":
            board.put(("resources", "disk", "size"), Offer(sides.limits, layer.owner, layer.source))
        elif is_device(name):
            _put_device(board, layer, name, sides)
        else:
            _put_sides(board, layer, name, sides)


def _put_gpus(board: Board, layer: Layer, name: str, sides: Sides) -> None:
    """`gpu`, or its Kubernetes resource name, which only an admin can use."""
    rule = None
    if name != "gpu":
        rule = f"{name} is a GPU resource of the platform"
        board.put(("resources", "gpu", "resource"), Offer(name, layer.owner, layer.source))
    amount = Quantity.from_int(_get_amount(sides).value)
    board.put(("resources", "gpu", LIMITS), Offer(amount, layer.owner, layer.source, rule))


def _put_device(board: Board, layer: Layer, name: str, sides: Sides) -> None:
    """Kubernetes requires equal request and limit of extended resources: either side sets both."""
    amount = _get_amount(sides)
    for side, said in ((REQUESTS, sides.requests), (LIMITS, sides.limits)):
        rule = "requests = limits, as Kubernetes requires for this resource" if said is None else None
        board.put(("resources", name, side), Offer(amount, layer.owner, layer.source, rule))


def _get_amount(sides: Sides) -> Quantity:
    """The amount of a resource with one side; `spec` ensures that it is whole and equal on both sides."""
    amount = sides.limits if sides.limits is not None else sides.requests
    if amount is None:
        raise ValueError("neither request nor limit")
    return amount


def _put_sides(board: Board, layer: Layer, name: str, sides: Sides) -> None:
    for side, amount in ((REQUESTS, sides.requests), (LIMITS, sides.limits)):
        if amount is not None:
            board.put(("resources", name, side), Offer(amount, layer.owner, layer.source))
    settle_contradiction(board, name, stronger_side=REQUESTS if sides.limits is None else LIMITS)


def settle_contradiction(board: Board, name: str, *, stronger_side: str) -> None:
    """If the limit is below the request, discard the weaker side with a warning."""
    request, limit = board.find("resources", name, REQUESTS), board.find("resources", name, LIMITS)
    if request is None or limit is None or limit.value >= request.value:
        return
    side, weaker, stronger = (LIMITS, limit, request) if stronger_side == REQUESTS else (REQUESTS, request, limit)
    other = REQUESTS if side == LIMITS else LIMITS
    lower, upper = (format_value(("resources", name), offer.value) for offer in (weaker, stronger))
    message = (
        f"the {_NOUNS[side]} {lower} from {weaker.source} contradicts the {_NOUNS[other]} {upper} from "
        f"{stronger.source}, which takes precedence; ignored"
    )
    board.discard(("resources", name, side), message=message, code=Code.RESOURCES_CONTRADICTION)


def _put_tolerations(board: Board, layer: Layer, value: list[dict[str, Any]]) -> None:
    held = {path[1]: offer for path, offer in board.under("tolerations")}
    for toleration in value:
        same = next((index for index, offer in held.items() if offer.value == toleration), None)
        index = len(held) if same is None else same
        offer = Offer(toleration, layer.owner, layer.source)
        board.put(("tolerations", index), offer)
        held[index] = offer


def _put_named(field: str) -> Callable[[Board, Layer, Any], None]:
    def put(board: Board, layer: Layer, value: Any) -> None:
        for entry in value:
            board.put((field, entry.name), Offer(entry, layer.owner, layer.source))

    return put


_PUTTERS: Mapping[str, Callable[[Board, Layer, Any], None]] = MappingProxyType(
    {
        "node_selector": _put_map("node_selector"),
        "envs": _put_map("envs"),
        "labels": _put_map("labels"),
        "tolerations": _put_tolerations,
        "volumes": _put_named("volumes"),
        "secrets": _put_named("secrets"),
    }
)
