"""Amounts of resources as whole numbers: millicores of cpu, bytes, pieces. And their text, as a kubelet prints it."""

from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from runyard.node.offer import CPU, MEMORY
from runyard.spec.kubernetes.quantity import Quantity

EPHEMERAL_STORAGE = "ephemeral-storage"
MOST_UNITS = 2**60
"""Larger amounts count as this one, which no node has."""
KIBIBYTE = 1024

_FREE = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_HUGE_PAGES = "hugepages-"


def count_up(resource: str, amount: Quantity) -> int:
    """What a pod holds: whole units, rounded up. A negative amount counts as none."""
    return _count(resource, amount, ROUND_CEILING)


def count_down(resource: str, amount: Quantity) -> int:
    """What a node has: whole units, rounded down. A negative amount counts as none."""
    return _count(resource, amount, ROUND_FLOOR)


def is_bytes(resource: str) -> bool:
    """Whether the amounts of a resource are bytes."""
    return resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith(_HUGE_PAGES)


def format_count(resource: str, count: int) -> str:
    """`61` or `1500m` for millicores, `360456Ki` for bytes (rounded down), the number itself for pieces."""
    if resource == CPU:
        return f"{count}m" if count % 1000 else str(count // 1000)
    return f"{count // KIBIBYTE}Ki" if is_bytes(resource) else str(count)


def format_amount(resource: str, amount: Quantity) -> str:
    """An amount that somebody asks for, as messages show it: bytes in the unit that was written where it is whole."""
    if not -MOST_UNITS < amount.exact < MOST_UNITS:
        return f"more than {format_count(resource, MOST_UNITS)}"
    return amount.text if is_bytes(resource) else format_count(resource, count_up(resource, amount))


def _count(resource: str, amount: Quantity, rounding: str) -> int:
    exact = amount.exact
    if exact <= 0:
        return 0
    if exact >= Decimal(MOST_UNITS):
        return MOST_UNITS
    units = exact.scaleb(3, _FREE) if resource == CPU else exact
    return min(MOST_UNITS, int(units.to_integral_value(rounding, _FREE)))
