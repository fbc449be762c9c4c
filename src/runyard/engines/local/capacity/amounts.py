"""Amounts of resources as whole numbers: cores in thousandths, everything else in units or bytes."""

from collections.abc import Mapping, Sequence
from typing import Any

from runyard.pods.demand import pod_requests
from runyard.spec.figures import format_amount
from runyard.spec.kubernetes.quantity import Quantity, QuantityError

CPU = "cpu"
MEMORY = "memory"
DISK = "ephemeral-storage"
RUNS = "pods"
"""Each run counts as one pod, so that runs that ask for nothing are bounded too."""
LARGEST_AMOUNT = 2**63 - 1
"""Larger amounts count as this one."""

Amounts = dict[str, int]


def read_demand(pod: Mapping[str, Any], claims: Sequence[Mapping[str, Any]] = ()) -> Amounts:
    """What a run asks for: the requests of its pod, one run, and the disk of the claims that are created for it.

    Raises `pods.fields.UnreadablePod`. Amounts below 0 count as 0.
    """
    demand = {name: _to_number(name, amount) for name, amount in pod_requests(pod).items()}
    demand[DISK] = demand.get(DISK, 0) + sum(map(_read_claim_bytes, claims))
    return {name: amount for name, amount in demand.items() if amount > 0} | {RUNS: 1}


def format_resource(name: str, amount: int) -> str:
    """An amount for people: `2`, `500m`, `8Gi`."""
    return format_amount(to_quantity(name, amount), is_bytes=name in (MEMORY, DISK))


def to_quantity(name: str, amount: int) -> Quantity:
    """The amount as Kubernetes writes it."""
    if name == CPU:
        return Quantity.parse(f"{amount}m")
    return Quantity.from_bytes(amount) if name in (MEMORY, DISK) else Quantity.from_int(amount)


def _to_number(name: str, amount: Quantity) -> int:
    if amount.is_negative:
        return 0
    if amount.exact * 1000 > LARGEST_AMOUNT:
        return LARGEST_AMOUNT
    return amount.milli_value if name == CPU else amount.value


def _read_claim_bytes(claim: Mapping[str, Any]) -> int:
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    try:
        return _to_number(DISK, Quantity.parse(requests.get("storage", 0)))
    except QuantityError:
        return 0
