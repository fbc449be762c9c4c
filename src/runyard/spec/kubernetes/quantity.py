"""Quantities of resources: parsed, rounded, compared and printed exactly as Kubernetes' `resource.Quantity` does.

Kubernetes keeps a quantity in one of two forms, and its 64-bit results depend on the form: *short* (`int64Amount`, an
int64 and a power of ten) for short text, *long* (`infDecAmount`) for any size. A Decimal represents both exactly, as
digits and exponent, without expanding the zeros of `1e2000000000`.
"""

import re
import unicodedata
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_CEILING, ROUND_UP, Context, Decimal, Inexact, InvalidOperation
from fractions import Fraction
from functools import total_ordering
from math import ceil, isfinite
from typing import Literal

from runyard.spec.problems import shorten

Format = Literal["BinarySI", "DecimalSI", "DecimalExponent"]

_INT64_MAX = 2**63 - 1
_POWERS: dict[str, tuple[Format, int]] = {
    **{suffix: ("DecimalSI", power) for suffix, power in zip("num", (-9, -6, -3), strict=True)},
    **{suffix: ("DecimalSI", power) for suffix, power in zip(("", *"kMGTPE"), range(0, 21, 3), strict=True)},
    **{f"{letter}i": ("BinarySI", power) for letter, power in zip("KMGTPE", range(10, 61, 10), strict=True)},
}
_DECIMAL_SUFFIXES = {power: suffix for suffix, (kind, power) in _POWERS.items() if kind == "DecimalSI"}
_BINARY_SUFFIXES = {0: "", **{power: suffix for suffix, (kind, power) in _POWERS.items() if kind == "BinarySI"}}
# Limits of the short form: digits, and the smallest power of ten.
_SHORT_DECIMAL_DIGITS = 18
_SHORT_BINARY_DIGITS = {10: 11, 20: 8, 30: 5, 40: 2, 50: -1, 60: -4}
_NANO = -9
# An overflow of 64 bits counts as 0 in the short form, except for these powers, which Kubernetes does not check.
_UNCHECKED_POWERS = frozenset({1, 2, 3, 6, 9})
# Possessive quantifiers, as Kubernetes' scanner does not backtrack: linear time for any input.
_SHAPE = re.compile(r"([+-]?+)(0*+)([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[-+]?+[0-9]*+)")
_EXPONENT = re.compile(r"[eE]([+-]?)([0-9]+)")
_MEANT = re.compile(r"([+-]?(?:[0-9]++\.?[0-9]*|\.[0-9]+))([a-z]+)")
_UNITS = {
    **dict.fromkeys(("b", "byte", "bytes", "core", "cores", "cpu", "cpus", "vcpu", "vcpus"), ""),
    **dict.fromkeys(("mcpu", "mcpus", "mcore", "mcores", "millicpu", "millicpus", "millicore", "millicores"), "m"),
    **{f"{letter}{rest}": f"{letter.upper()}i" for letter in "kmgtpe" for rest in ("i", "b", "ib")},
    **{letter: f"{letter.upper()}i" for letter in "kmgtp"},
}

_FREE = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, rounding=ROUND_UP, traps=[InvalidOperation])
_MOST_DIGITS = 10_000
_BOUNDED = Context(prec=_MOST_DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[InvalidOperation, Inexact])
_ONE_NANO = Decimal("1e-9")
_CAP = Decimal(_INT64_MAX)
_TWO_TO_64 = Decimal(2**64)


class QuantityError(ValueError):
    """Not a valid quantity, or one too large to calculate with; `suggestion` is the quantity probably meant."""

    def __init__(self, message: str, *, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.suggestion = suggestion


@total_ordering
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Quantity:
    """An amount and its format; created by `parse`, `from_bytes` or `from_int`. Equality compares amounts only."""

    exact: Decimal
    """The amount. Calculate with `+`, `-` and `scale`: Decimal's operators round to the caller's context."""
    format: Format
    is_long: bool = False
    """Kubernetes' internal form, which decides how negative and overflowing amounts are counted."""

    @classmethod
    def parse(cls, given: str | int | float) -> "Quantity":
        """Parse a text or number as Kubernetes does; a float is parsed from its shortest text. Raises QuantityError."""
        text = given if isinstance(given, str) else _write_number(given)
        found = _SHAPE.fullmatch(text)
        if not text or not found:
            raise _refuse(text)
        sign, zeros, whole, fraction, suffix = found.groups("")
        kind, power = _POWERS.get(suffix) or _read_exponent(text, suffix)
        if kind == "BinarySI":
            if not fraction and len(whole or "0") <= _SHORT_BINARY_DIGITS[power]:
                return cls(_sign(Decimal(int(whole or "0") << power), sign), kind)
        else:
            scale = _wrap(power - len(fraction), bits=32)
            if len(whole or "0") + len(fraction) <= _SHORT_DECIMAL_DIGITS and scale >= _NANO:
                return cls(_sign(Decimal(f"{whole or 0}{fraction}e{scale}"), sign), kind)
        if not (zeros or whole or fraction):
            raise _refuse(text)
        return _read_long(f"{whole or '0'}{fraction}", len(fraction), kind=kind, power=power, sign=sign)

    @classmethod
    def from_bytes(cls, value: int) -> "Quantity":
        """A number of bytes, printed with Ki, Mi, …; capped at 2^63-1 as in `parse`."""
        return cls(Decimal(max(-_INT64_MAX, min(_INT64_MAX, value))), "BinarySI")

    @classmethod
    def from_int(cls, value: int) -> "Quantity":
        """A number of units, printed with k, M, …"""
        return cls(Decimal(value), "DecimalSI", abs(value) > _INT64_MAX)

    @property
    def text(self) -> str:
        """The canonical text. As in Kubernetes, 1000E prints as 1: print only if `is_countable`."""
        if not self.exact:
            return "0"
        if self.format == "BinarySI" and self.is_whole and self.exact.copy_abs() >= 1024:
            return _render_binary(int(self.exact))
        return _render_decimal(self.exact, with_exponent=self.format == "DecimalExponent")

    @property
    def value(self) -> int:
        """Whole units, rounded up, as Kubernetes' Value(): overflows if not `is_countable`."""
        return self._count(0)

    @property
    def milli_value(self) -> int:
        """Thousandths, rounded up, as Kubernetes' MilliValue(): overflows above 9.2e15 units."""
        return self._count(3)

    @property
    def is_zero(self) -> bool:
        return not self.exact

    @property
    def is_negative(self) -> bool:
        return self.exact < 0

    @property
    def is_whole(self) -> bool:
        return self.exact == self.exact.to_integral_value(ROUND_UP, _FREE)

    @property
    def is_countable(self) -> bool:
        """Whether the amount fits into 64 bits; Kubernetes does not cap decimal amounts, and overflows above 2^63-1."""
        return -_INT64_MAX <= self.exact <= _INT64_MAX

    def scale(self, factor: Decimal | Fraction) -> "Quantity":
        """The exact product, rounded away from zero to whole units, in the same format; binary amounts are capped."""
        product = _to_fraction(self.exact) * _to_fraction(factor)
        size = ceil(abs(product))
        if self.format == "BinarySI":
            size = min(size, _INT64_MAX)
        return Quantity(Decimal(-size if product < 0 else size), self.format, size > _INT64_MAX)

    def __add__(self, other: "Quantity") -> "Quantity":
        if not isinstance(other, Quantity):
            return NotImplemented
        return self._plus(other, other.exact)

    def __sub__(self, other: "Quantity") -> "Quantity":
        if not isinstance(other, Quantity):
            return NotImplemented
        return self._plus(other, other.exact.copy_negate() if other.exact else other.exact)

    def __eq__(self, other: object) -> bool:
        return self.exact == other.exact if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: "Quantity") -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return self.exact < other.exact

    def __hash__(self) -> int:
        return hash(self.exact)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f'Quantity("{self.text}")'

    def _plus(self, other: "Quantity", term: Decimal) -> "Quantity":
        kind = other.format if self.is_zero else self.format
        is_long = self.is_long or other.is_long
        if not is_long and not (self.exact and term):
            return Quantity(self.exact or term, kind)
        try:
            total = _BOUNDED.add(self.exact, term)
        except Inexact:
            raise QuantityError(f"the sum has more than {_MOST_DIGITS} digits") from None
        step = _exponent(total)
        is_long = is_long or any(
            part.scaleb(-step, _FREE).copy_abs() > _INT64_MAX for part in (self.exact, term, total)
        )
        return Quantity(total, kind, is_long)

    def _count(self, places: int) -> int:
        if not self.exact:
            return 0
        return _count_long(self.exact, places) if self.is_long else _count_short(self.exact, places)


def _write_number(given: object) -> str:
    if isinstance(given, int) and not isinstance(given, bool):
        return str(Decimal(given))  # str() of an int refuses very long ones
    if isinstance(given, float) and isfinite(given):
        return repr(given)
    raise QuantityError(f"{shorten(given)} is not a valid quantity: it must be text or a finite number")


def _read_exponent(text: str, suffix: str) -> tuple[Format, int]:
    found = _EXPONENT.fullmatch(suffix)
    digits = found[2].lstrip("0") if found else ""
    if not found or len(digits) > len(str(_INT64_MAX)):
        raise _refuse(text)
    power = int(f"{found[1]}{digits or 0}")
    if power != _wrap(power, bits=64):
        raise _refuse(text)
    return "DecimalExponent", power


def _read_long(digits: str, places: int, *, kind: Format, power: int, sign: str) -> Quantity:
    """The amount in nanos, rounded up; binary amounts are capped, and become decimal below 1."""
    if kind == "BinarySI":
        amount = _FREE.multiply(Decimal(f"{digits}e-{places}"), Decimal(1 << power))
    else:
        places = _wrap(places - power, bits=32)
        amount = Decimal(f"{digits}e{-places}")
    if amount and (places > -_NANO or amount.adjusted() < _MOST_DIGITS):
        amount = amount.quantize(_ONE_NANO, ROUND_UP, _FREE)
    if kind == "BinarySI":
        amount = min(amount, _CAP)
        if 0 < amount < 1:
            kind = "DecimalSI"
    return Quantity(_sign(amount, sign), kind, is_long=True)


def _sign(amount: Decimal, sign: str) -> Decimal:
    return amount.copy_negate() if sign == "-" and amount else amount


def _wrap(number: int, *, bits: int) -> int:
    """Two's complement overflow of a signed integer, which Kubernetes does not check here."""
    half = 1 << (bits - 1)
    return (number + half) % (2 * half) - half


def _exponent(amount: Decimal) -> int:
    return int(amount.as_tuple().exponent)


def _count_short(amount: Decimal, places: int) -> int:
    raised = _exponent(amount) + places
    if raised >= len(str(_INT64_MAX)):
        return 0
    counted = int(amount.scaleb(places, _FREE).to_integral_value(ROUND_UP, _FREE))
    if abs(counted) <= _INT64_MAX:
        return counted
    return _wrap(counted, bits=64) if raised in _UNCHECKED_POWERS else 0


def _count_long(amount: Decimal, places: int) -> int:
    exponent = _exponent(amount)
    steps, dropped = amount.scaleb(-exponent, _FREE), -exponent - places
    if dropped <= 0:
        return _wrap(_keep_64_bits(steps) * pow(10, -dropped, 2**64), bits=64)
    if steps < _INT64_MAX and dropped < len(str(_INT64_MAX)):
        # Towards zero, then one more: in this form -1.5 counts as 0.
        kept, divisor = _keep_64_bits(steps), int(10**dropped)
        return abs(kept) // divisor * (-1 if kept < 0 else 1) + (kept % divisor != 0)
    return _keep_64_bits(amount.scaleb(places, _FREE).to_integral_value(ROUND_CEILING, _FREE))


def _keep_64_bits(whole: Decimal) -> int:
    return _wrap(int(_FREE.remainder(whole, _TWO_TO_64)), bits=64)


def _render_binary(number: int) -> str:
    power = 0
    while number % 1024 == 0:
        number, power = number // 1024, power + 10
    return f"{number}{_BINARY_SUFFIXES.get(power, '')}"


def _render_decimal(amount: Decimal, *, with_exponent: bool) -> str:
    amount = amount.normalize(_FREE)
    exponent = _exponent(amount)
    power = exponent - exponent % 3
    number = f"{amount.scaleb(-exponent, _FREE)}{'0' * (exponent - power)}"
    if with_exponent:
        return f"{number}e{power}" if power else number
    return f"{number}{_DECIMAL_SUFFIXES.get(power, '')}"


def _to_fraction(number: Decimal | Fraction) -> Fraction:
    if isinstance(number, Decimal) and abs(number.adjusted()) > _MOST_DIGITS:
        raise QuantityError(f"cannot multiply a number of more than {_MOST_DIGITS} digits")
    return Fraction(number)


def _refuse(text: str) -> QuantityError:
    meant = _find_meant(text)
    message = f'"{shorten(text)}" is not a valid quantity'
    if meant and meant.endswith("i") and "i" not in text.lower():
        message += f": {meant} is in units of 1024, {meant[:-1].replace('K', 'k')} in units of 1000"
    return QuantityError(message, suggestion=meant)


def _find_meant(text: str) -> str | None:
    if len(text) > 40:
        return None
    plain = re.sub(r"[\s_]", "", unicodedata.normalize("NFKC", text))
    plain = re.sub(r",(?![0-9]{3}(?![0-9]))", ".", plain)  # 1,5 is 1.5; 1,000 is ambiguous
    if plain != text and re.search("[0-9]", plain):
        try:
            Quantity.parse(plain)
        except QuantityError:
            pass
        else:
            return plain
    found = _MEANT.fullmatch(plain.lower())
    if not found:
        return None
    number, unit = found.groups()
    return f"{number}{_UNITS[unit]}" if unit in _UNITS else None
