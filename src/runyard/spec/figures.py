"""Figures for people: amounts and durations as tables and messages show them. JSON always has the exact value.

A figure that is short is shown exactly as it is: `32Gi`, `500m`, `8d`. A long one is rounded to three digits, with the
exact figure beside it: `about 35.2Gi (37795712205)`, `about 1.16d (100000s)`. Sizes in sentences are `512 KiB`.
"""

from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any

from runyard.spec.duration import format_duration
from runyard.spec.kubernetes.quantity import Quantity

SHORT_FIGURE_DIGITS = 4
"""Figures with more digits are rounded for people."""
SIGNIFICANT_DIGITS = 3

DURATION_FIELDS = frozenset({"timeout", "pending_timeout", "ttl", "grace_period", "lifetime"})
"""Fields whose values are seconds."""

_ROUND = Context(prec=SIGNIFICANT_DIGITS, rounding=ROUND_HALF_EVEN)
_BYTE_UNITS = tuple((f"{letter}iB", Decimal(1024**power)) for power, letter in enumerate("KMGTPE", start=1))
_BINARY_UNITS = tuple((f"{letter}i", Decimal(1024**power)) for power, letter in enumerate("KMGTPE", start=1))
_DECIMAL_UNITS = tuple((letter, Decimal(1000**power)) for power, letter in enumerate("kMGTPE", start=1))
_DURATION_UNITS = (("m", Decimal(60)), ("h", Decimal(3600)), ("d", Decimal(86400)))
_NOT_BYTES = frozenset({"cpu", "gpu"})


def format_amount(amount: Quantity, *, is_bytes: bool = False) -> str:
    """An amount: `32Gi`, `about 35.2Gi (37795712205)`. Amounts of bytes are rounded in binary units."""
    units = _BINARY_UNITS if is_bytes or amount.format == "BinarySI" else _DECIMAL_UNITS
    return _format(amount.text, amount.exact, units)


def format_seconds(seconds: int) -> str:
    """A duration: `8d`, `90m`, `about 1.16d (100000s)`."""
    return _format(format_duration(seconds), Decimal(seconds), _DURATION_UNITS)


def format_bytes(size: int) -> str:
    """A number of bytes in a sentence: `600 bytes`, `512 KiB`, `about 879 KiB (900000 bytes)`."""
    if size < 1024:
        return f"{size} byte{'s' * (size != 1)}"
    name, unit = next((name, unit) for name, unit in reversed(_BYTE_UNITS) if size >= unit)
    rounded = _ROUND.divide(Decimal(size), unit)
    text = f"{rounded.normalize():f} {name}"
    return text if rounded * unit == size else f"about {text} ({size} bytes)"


def format_figure(field: str, value: Any) -> str:
    """A value of a field or rule, by its dotted name (`resources.mem.limits`, `timeout`), as text for people."""
    if isinstance(value, Quantity):
        return format_amount(value, is_bytes=is_bytes(field))
    if field.rpartition(".")[2] in DURATION_FIELDS and isinstance(value, int) and not isinstance(value, bool):
        return format_seconds(value)
    return str(value)


def is_bytes(field: str) -> bool:
    """Whether amounts of the field count bytes; cores and devices are counted in units."""
    parts = field.split(".")
    if parts[0] == "volumes":
        return True
    return parts[0] == "resources" and len(parts) > 1 and parts[1] not in _NOT_BYTES and "/" not in field


def _format(exact: str, value: Decimal, units: tuple[tuple[str, Decimal], ...]) -> str:
    if sum(character.isdigit() for character in exact) <= SHORT_FIGURE_DIGITS or abs(value) < 1:
        return exact
    name, size = next(((name, size) for name, size in reversed(units) if abs(value) >= size), ("", Decimal(1)))
    rounded = _ROUND.divide(value, size)
    text = f"{rounded:f}".rstrip("0").rstrip(".") if "." in f"{rounded:f}" else f"{rounded:f}"
    return f"about {text}{name} ({exact})"
