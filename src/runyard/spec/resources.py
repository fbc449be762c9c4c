"""`resources`: cpu, mem, gpu and disk, as plain amounts, per resource with requests and limits, or as in Kubernetes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from runyard.spec.kubernetes.quantity import Quantity, QuantityError
from runyard.spec.names import check_qualified_name
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, find_nearest
from runyard.spec.readers import Findings, expect_mapping, refuse

RESOURCES = ("cpu", "mem", "gpu", "disk")
SIDES = ("requests", "limits")
KUBERNETES_NAMES = MappingProxyType({"cpu": "cpu", "mem": "memory"})
"""Our names in a container's resources. The admin chooses the resource of gpu; disk is a volume."""

LARGEST_AMOUNT = Quantity.parse("512Pi")
"""Above it, a memory tolerance of 10 would overflow Kubernetes' 64-bit integers, which turns limits into 0."""
LARGEST_COUNT = Quantity.parse(2**31 - 1)
"""The maximum of cores and GPUs; Kubernetes counts thousandths."""

SMALL_REQUESTS = MappingProxyType({"cpu": Quantity.parse("100m"), "ephemeral-storage": Quantity.parse("1Gi")})
"""The request of a run that sets none, where the policy sets a limit."""

_PLAIN_NAMES = {"cpu": "cpu", "memory": "mem", "mem": "mem"}
_EXAMPLES = "8, 500m, 0.5, 32Gi"

RESOURCES_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "Resources of the run: per resource an amount, or requests and limits.",
    "properties": {
        name: {
            "description": text,
            "anyOf": [
                {"type": ["string", "number"]},
                {
                    "type": "object",
                    "properties": {side: {"type": ["string", "number"]} for side in SIDES},
                    "additionalProperties": False,
                },
            ],
            "examples": examples,
        }
        for name, text, examples in (
            ("cpu", "CPU cores. A plain amount is the request.", ["8", "500m", {"requests": "10", "limits": "12"}]),
            ("mem", "Memory. A plain amount is the request; the limit is slightly higher.", ["32Gi"]),
            ("gpu", "Number of GPUs.", ["1", {"limits": "1"}]),
            ("disk", "Size of the scratch volume at /shared.", ["10Gi"]),
        )
    },
    "additionalProperties": False,
}
ADMIN_RESOURCES_SCHEMA: dict[str, Any] = {
    **RESOURCES_SCHEMA,
    "properties": {
        **RESOURCES_SCHEMA["properties"],
        **{
            side: {
                "type": "object",
                "description": f"{side} by Kubernetes resource name",
                "additionalProperties": {"type": ["string", "number"]},
                "examples": [{"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"}],
            }
            for side in SIDES
        },
    },
}


@dataclass(frozen=True, slots=True)
class Sides:
    """Request and limit of one resource; None is unset."""

    request: Quantity | None = None
    limit: Quantity | None = None


Resources = Mapping[str, Sides]
"""By our names (`cpu`, `mem`, `gpu`, `disk`), and by Kubernetes' names for resources that only an admin may set."""


def read_resources(given: Any) -> Resources:
    """A user's resources: cpu, mem, gpu, disk."""
    return _read(given, is_admin=False)


def read_admin_resources(given: Any) -> Resources:
    """A profile's resources: the same, and `requests`/`limits` by any Kubernetes resource name."""
    return _read(given, is_admin=True)


def read_quantity(given: Any) -> Quantity:
    """An amount: text or number, not negative."""
    if not isinstance(given, (str, int, float)) or isinstance(given, bool):
        raise refuse(Code.QUANTITY_INVALID, "a quantity must be text or a number", value=given, allowed=_EXAMPLES)
    if isinstance(given, str) and not any(character.isdigit() for character in given):
        # Kubernetes reads `m` and `Ki` as 0.
        raise refuse(Code.QUANTITY_INVALID, "a quantity must contain a number", value=given, allowed=_EXAMPLES)
    try:
        quantity = Quantity.parse(given)
    except QuantityError as error:
        allowed = "a number with an optional unit: m, k, M, G, T, Ki, Mi, Gi, Ti"
        raise refuse(
            Code.QUANTITY_INVALID, str(error), value=given, allowed=allowed, suggestion=error.suggestion
        ) from None
    if quantity > LARGEST_AMOUNT:
        raise refuse(Code.QUANTITY_LARGE, "the quantity is too large", value=given, allowed=f"at most {LARGEST_AMOUNT}")
    if quantity.is_negative:
        raise refuse(Code.QUANTITY_NEGATIVE, "a quantity must not be negative", value=given, allowed="0 or more")
    return quantity


def _read(given: Any, *, is_admin: bool) -> Resources:
    findings = Findings()
    sides: dict[str, Sides] = {}
    for name, value in expect_mapping(given, of="resources").items():
        if value is None:
            continue
        if name in SIDES:
            _read_kubernetes_side(name, value, sides, findings, is_admin=is_admin)
        elif name in RESOURCES:
            read = findings.read(partial(_read_sides, name), value, name)
            if read is not None:
                sides[name] = _merge_sides(sides.get(name), read, (name,), findings)
        else:
            findings.problems.append(_unknown_resource(name, is_admin=is_admin))
    checked = {name: _check_sides(name, read, findings) for name, read in sides.items()}
    findings.finish()
    return MappingProxyType(checked)


def _read_sides(name: str, given: Any) -> Sides:
    if not isinstance(given, Mapping):
        return Sides(request=read_quantity(given))
    findings = Findings()
    for key in given:
        if key not in SIDES:
            meant = find_nearest(str(key), SIDES)
            findings.add(
                Code.FIELD_UNKNOWN, (key,), f"unknown field `{key}`", allowed="requests, limits", suggestion=meant
            )
    request, limit = (
        findings.read(read_quantity, given[side], side) if given.get(side) is not None else None for side in SIDES
    )
    findings.finish()
    if request is None and limit is None:
        raise refuse(Code.RESOURCES_EMPTY, f"`{name}` needs requests or limits", allowed="an amount, requests, limits")
    return Sides(request=request, limit=limit)


def _read_kubernetes_side(
    side: str, given: Any, sides: dict[str, Sides], findings: Findings, *, is_admin: bool
) -> None:
    entries = findings.read(lambda value: expect_mapping(value, of="Kubernetes resource names"), given, side)
    for kubernetes_name, value in (entries or {}).items():
        name = _PLAIN_NAMES.get(kubernetes_name, kubernetes_name)
        if name not in RESOURCES and not is_admin:
            problem = _unknown_resource(kubernetes_name, is_admin=False)
            findings.problems.append(replace(problem, path=(side, kubernetes_name)))
            continue
        if name not in RESOURCES and (error := _check_resource_name(name)):
            findings.add(
                Code.RESOURCES_NAME, (side, kubernetes_name), f"is not a resource name: {error}", value=kubernetes_name
            )
            continue
        quantity = findings.read(read_quantity, value, side, kubernetes_name)
        if quantity is not None:
            read = Sides(request=quantity) if side == "requests" else Sides(limit=quantity)
            sides[name] = _merge_sides(sides.get(name), read, (side, kubernetes_name), findings)


def _merge_sides(old: Sides | None, new: Sides, path: tuple[str, ...], findings: Findings) -> Sides:
    if old is None:
        return new
    for mine, yours in ((old.request, new.request), (old.limit, new.limit)):
        if mine is not None and yours is not None and mine != yours:
            findings.add(Code.RESOURCES_TWICE, path, f"is set twice: {mine} and {yours}")
    return Sides(
        request=new.request if new.request is not None else old.request,
        limit=new.limit if new.limit is not None else old.limit,
    )


def _check_sides(name: str, sides: Sides, findings: Findings) -> Sides:
    request, limit = sides.request, sides.limit
    for amount in (request, limit):
        if name in ("cpu", "gpu") and amount is not None and amount > LARGEST_COUNT:
            findings.add(Code.QUANTITY_LARGE, (name,), f"{amount} is too large", allowed=f"at most {LARGEST_COUNT}")
            return sides
    if name in ("cpu", "mem", "ephemeral-storage"):
        _check_zero(name, sides, findings)
    if name in ("gpu", "disk") or is_device(name):
        if request is not None and limit is not None and request != limit:
            findings.add(
                Code.RESOURCES_SIDES,
                (name,),
                f"`{name}` takes one amount: requests {request} differs from limits {limit}",
            )
        amount = limit if limit is not None else request
        if name != "disk" and amount is not None and not amount.is_whole:
            message = f"`{name}` must be a whole number"
            findings.add(Code.RESOURCES_WHOLE, (name,), message, value=str(amount), suggestion=str(amount.value))
        if name == "disk" and amount is not None and amount.is_zero:
            findings.add(Code.RESOURCES_ZERO, (name,), "`disk` must be more than 0", suggestion="leave `disk` out")
        return sides if is_device(name) else Sides(limit=amount)
    if request is not None and limit is not None and limit < request:
        findings.add(
            Code.RESOURCES_LIMIT_BELOW_REQUEST,
            (name,),
            f"the limit {limit} is below the request {request}",
            suggestion=f"limits: {request}",
        )
    return sides


def _check_zero(name: str, sides: Sides, findings: Findings) -> None:
    for side, amount in (("limits", sides.limit), ("requests", sides.request if name == "mem" else None)):
        if amount is not None and amount.is_zero:
            message = f"{side} of 0 mean unlimited to Kubernetes"
            findings.add(Code.RESOURCES_ZERO, (name, side), message, value="0", suggestion=f"leave `{name}` out")


def is_device(name: str) -> bool:
    """Whether Kubernetes wants whole numbers and limit = request: extended resources `vendor/name`, huge pages."""
    return "/" in name or name.startswith("hugepages-")


def _check_resource_name(name: str) -> str | None:
    if name == "ephemeral-storage" or is_device(name):
        return check_qualified_name(name)
    return "must be cpu, memory, ephemeral-storage, hugepages-SIZE or an extended resource `vendor/name`"


def _unknown_resource(name: str, *, is_admin: bool) -> Problem:
    near = {"memory": "mem", "ram": "mem", "cpus": "cpu", "gpus": "gpu", "storage": "disk"}
    meant = near.get(name.lower()) or find_nearest(name, RESOURCES)
    if "/" in name and name.endswith("gpu"):
        meant = "gpu"
    allowed = "cpu, mem, gpu, disk" + (", requests, limits" if is_admin else "")
    return Problem(Code.RESOURCES_UNKNOWN, (name,), f"unknown resource `{name}`", allowed=allowed, suggestion=meant)


def read_amount(given: Any) -> Quantity:
    """An amount greater than 0, such as a volume's size."""
    quantity = read_quantity(given)
    if quantity.is_zero:
        raise refuse(Code.QUANTITY_ZERO, "must be more than 0", value=given)
    return quantity
