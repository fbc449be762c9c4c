"""`resources`: cpu, mem, gpu and disk, as plain amounts, per resource with requests and limits, or as in Kubernetes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from runyard.spec.figures import format_figure
from runyard.spec.kubernetes.quantity import Quantity, QuantityError
from runyard.spec.names import check_qualified_name
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem, find_nearest
from runyard.spec.readers import Findings, expect_mapping, refuse

RESOURCES = ("cpu", "mem", "gpu", "disk")
REQUESTS, LIMITS = SIDES = ("requests", "limits")
OTHER_SPELLINGS = MappingProxyType({"request": REQUESTS, "limit": LIMITS})
"""Spellings of the sides that are understood wherever amounts are read, with a warning."""
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
_ALLOWED_WHEN_EMPTY = "cpu, mem (not memory), gpu, disk; each an amount, or requests and limits"

_SIDES_DESCRIBED = {REQUESTS: "Amount that the scheduler sets aside.", LIMITS: "Amount that the run cannot exceed."}
RESOURCES_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "Resources of the run: per resource an amount, or requests and limits.",
    "examples": [{"cpu": "8", "mem": "32Gi", "gpu": "1", "disk": "10Gi"}],
    "properties": {
        name: {
            "description": text,
            "anyOf": [
                {"type": ["string", "number"]},
                {
                    "type": "object",
                    "properties": {
                        side: {"type": ["string", "number"], "description": about, "examples": examples[:1]}
                        for side, about in _SIDES_DESCRIBED.items()
                    },
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
    """The amounts that one resource requests and is limited to; None is unset."""

    requests: Quantity | None = None
    limits: Quantity | None = None


class Resources(Mapping[str, Sides]):
    """Amounts by our names (`cpu`, `mem`, `gpu`, `disk`), and by Kubernetes' names for those only an admin may set.

    Immutable. `notes` are the warnings of the reader; they are no part of the value, so equality ignores them.
    """

    __slots__ = ("_sides", "notes")

    def __init__(self, sides: Mapping[str, Sides], notes: Iterable[Problem] = ()) -> None:
        self._sides = dict(sides)
        self.notes = tuple(notes)

    def __getitem__(self, name: str) -> Sides:
        return self._sides[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sides)

    def __len__(self) -> int:
        return len(self._sides)


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
    findings, notes = Findings(), list[Problem]()
    sides: dict[str, Sides] = {}
    entries = expect_mapping(given, of="resources")
    if not entries:
        notes.append(_note_empty("resources"))
    for name, value in entries.items():
        if value is None:
            continue
        if name in SIDES or name in OTHER_SPELLINGS:
            _read_kubernetes_side(name, value, sides, findings, notes, is_admin=is_admin)
        elif name in RESOURCES:
            read = findings.read(partial(_read_sides, name, notes=notes), value, name)
            if read is not None and read != Sides():
                sides[name] = _merge_sides(sides.get(name), read, (name,), findings)
        else:
            findings.problems.append(_unknown_resource(name, is_admin=is_admin))
    checked = {name: _check_sides(name, read, findings) for name, read in sides.items()}
    findings.finish()
    return Resources(checked, notes)


def _read_sides(name: str, given: Any, *, notes: list[Problem]) -> Sides:
    """A plain amount, or an object with requests and limits; nulls are unset."""
    if not isinstance(given, Mapping):
        return Sides(requests=read_quantity(given))
    findings = Findings()
    amounts: dict[str, Quantity | None] = {}
    for key, value in expect_mapping(given, of="requests and limits").items():
        side = OTHER_SPELLINGS.get(key, key)
        if side not in SIDES:
            meant = find_nearest(str(key), SIDES)
            findings.add(
                Code.FIELD_UNKNOWN, (key,), f"unknown field `{key}`", allowed="requests, limits", suggestion=meant
            )
        elif side in amounts:
            findings.add(Code.FIELD_TWICE, (key,), f"`{side}` is set twice: the other spelling is there too")
        elif value is not None:
            amounts[side] = findings.read(read_quantity, value, key)
            if key != side:
                notes.append(note_spelling((name, key), side))
    findings.finish()
    if not amounts:
        notes.append(_note_empty(name, name))
    return Sides(**amounts)


def note_spelling(path: Path, side: str) -> Problem:
    """The warning about `request` or `limit` at the end of `path`."""
    message = f"`{path[-1]}` is read as `{side}`, the spelling that is used everywhere else"
    return Problem(Code.FIELD_SPELLING, path, message, suggestion=side)


def _note_empty(name: str, *path: str) -> Problem:
    message = f"`{name}` is empty and has no effect; some clients drop names that they do not know"
    return Problem(Code.RESOURCES_EMPTY, path, message, allowed=_ALLOWED_WHEN_EMPTY, suggestion=f"leave `{name}` out")


def _read_kubernetes_side(
    written: str,
    given: Any,
    sides: dict[str, Sides],
    findings: Findings,
    notes: list[Problem],
    *,
    is_admin: bool,
) -> None:
    side = OTHER_SPELLINGS.get(written, written)
    if side != written:
        notes.append(note_spelling((written,), side))
    entries = findings.read(lambda value: expect_mapping(value, of="Kubernetes resource names"), given, written)
    if entries is not None and not entries:
        notes.append(_note_empty(written, written))
    for kubernetes_name, value in (entries or {}).items():
        name = _PLAIN_NAMES.get(kubernetes_name, kubernetes_name)
        if name not in RESOURCES and not is_admin:
            problem = _unknown_resource(kubernetes_name, is_admin=False)
            findings.problems.append(replace(problem, path=(written, kubernetes_name)))
            continue
        if name not in RESOURCES and (error := _check_resource_name(name)):
            findings.add(
                Code.RESOURCES_NAME,
                (written, kubernetes_name),
                f"is not a resource name: {error}",
                value=kubernetes_name,
            )
            continue
        quantity = findings.read(read_quantity, value, written, kubernetes_name)
        if quantity is not None:
            sides[name] = _merge_sides(sides.get(name), Sides(**{side: quantity}), (written, kubernetes_name), findings)


def _merge_sides(old: Sides | None, new: Sides, path: tuple[str, ...], findings: Findings) -> Sides:
    if old is None:
        return new
    place = f"resources.{path[-1]}"
    for mine, yours in ((old.requests, new.requests), (old.limits, new.limits)):
        if mine is not None and yours is not None and mine != yours:
            findings.add(
                Code.RESOURCES_TWICE,
                path,
                f"is set twice: {format_figure(place, mine)} and {format_figure(place, yours)}",
            )
    return Sides(
        requests=new.requests if new.requests is not None else old.requests,
        limits=new.limits if new.limits is not None else old.limits,
    )


def _check_sides(name: str, sides: Sides, findings: Findings) -> Sides:
    request, limit, place = sides.requests, sides.limits, f"resources.{name}"
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
                f"`{name}` takes one amount: requests {format_figure(place, request)} differs from limits "
                f"{format_figure(place, limit)}",
            )
        amount = limit if limit is not None else request
        if name != "disk" and amount is not None and not amount.is_whole:
            message = f"`{name}` must be a whole number"
            findings.add(Code.RESOURCES_WHOLE, (name,), message, value=str(amount), suggestion=str(amount.value))
        if name == "disk" and amount is not None and amount.is_zero:
            findings.add(Code.RESOURCES_ZERO, (name,), "`disk` must be more than 0", suggestion="leave `disk` out")
        return sides if is_device(name) else Sides(limits=amount)
    if request is not None and limit is not None and limit < request:
        findings.add(
            Code.RESOURCES_LIMIT_BELOW_REQUEST,
            (name,),
            f"the limit {format_figure(place, limit)} is below the request {format_figure(place, request)}",
            suggestion=f"limits: {request}",
        )
    return sides


def _check_zero(name: str, sides: Sides, findings: Findings) -> None:
    for side, amount in (("limits", sides.limits), ("requests", sides.requests if name == "mem" else None)):
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
