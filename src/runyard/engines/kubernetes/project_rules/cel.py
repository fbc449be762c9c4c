"""Text of the Common Expression Language (CEL) that the apiserver evaluates. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_UP, Decimal
from typing import Any

from runyard.spec.kubernetes.quantity import Quantity

TRUE, FALSE = "true", "false"
_MILLI = Decimal("0.001")


def quote(text: str) -> str:
    """A string literal. Everything but printable ASCII is escaped."""
    return f'"{"".join(map(_escape, text))}"'


def _escape(character: str) -> str:
    code = ord(character)
    if character in '"\\':
        return f"\\{character}"
    if 0x20 <= code < 0x7F:
        return character
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def literal(value: Any) -> str:
    """A literal of plain JSON."""
    if isinstance(value, bool):
        return TRUE if value else FALSE
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{quote(key)}: dyn({literal(item)})" for key, item in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(f"dyn({literal(item)})" for item in value) + "]"
    raise TypeError(f"{type(value).__name__} has no literal")


def texts(values: Iterable[str]) -> str:
    """A list of string literals, sorted, each once."""
    return f"[{', '.join(quote(value) for value in sorted(set(values)))}]"


def all_of(*conditions: str) -> str:
    """True if all are."""
    given = [condition for condition in conditions if condition != TRUE]
    return " && ".join(f"({condition})" for condition in given) if given else TRUE


def any_of(*conditions: str) -> str:
    """True if one is."""
    given = [condition for condition in conditions if condition != FALSE]
    if TRUE in given:
        return TRUE
    return " || ".join(f"({condition})" for condition in given) if given else FALSE


def is_one_of(value: str, allowed: Iterable[str]) -> str:
    """Whether a text is one of those."""
    listed = list(allowed)
    return f"{value} in {texts(listed)}" if listed else FALSE


def matches_any(value: str, patterns: Iterable[str]) -> str:
    """Whether a text matches one of the policy's patterns (`spec.patterns`): `*` is any text."""
    listed = sorted(set(patterns))
    exact = [pattern for pattern in listed if "*" not in pattern]
    globs = [pattern for pattern in listed if "*" in pattern]
    if any(set(pattern) == {"*"} for pattern in globs):
        return TRUE
    return any_of(is_one_of(value, exact), *(f"{value}.matches({quote(glob_to_regex(glob))})" for glob in globs))


def glob_to_regex(pattern: str) -> str:
    """The RE2 expression of a pattern, for the whole text."""
    parts = [escape_regex(part) for part in pattern.split("*")]
    return f"(?s)^{'.*'.join(parts)}$"


def escape_regex(text: str) -> str:
    """RE2 that matches exactly this text."""
    return "".join(
        f"\\{character}" if character.isascii() and not character.isalnum() else character for character in text
    )


def has_path(*path: str) -> str:
    """Whether every field of a path is there; the first part is a variable."""
    return all_of(*(f"has({'.'.join(path[: end + 1])})" for end in range(1, len(path))))


def find(path: str, *, default: str) -> str:
    """The value of a path of fields below `object`, or the default."""
    return f"({has_path(*path.split('.'))} ? {path} : {default})"


def items(path: str) -> str:
    """The list under a path, empty if it is not there."""
    return find(path, default="[]")


def at_most(value: str, amount: Quantity) -> str:
    """Whether a quantity is at most that."""
    return f"quantity({value}).compareTo({_quantity(amount)}) <= 0"


def at_least(value: str, amount: Quantity) -> str:
    """Whether a quantity is at least that."""
    return f"quantity({value}).compareTo({_quantity(amount)}) >= 0"


def equals_one(value: str, amounts: Iterable[Quantity]) -> str:
    """Whether a quantity equals one of those."""
    listed = sorted({_round_up(amount) for amount in amounts})
    return any_of(*(f'quantity({value}).compareTo(quantity("{amount:f}")) == 0' for amount in listed))


def _quantity(amount: Quantity) -> str:
    return f'quantity("{_round_up(amount):f}")'


def _round_up(amount: Quantity) -> Decimal:
    """As the apiserver rounds amounts of a pod: up to thousandths."""
    exact = amount.exact
    return exact.quantize(_MILLI, ROUND_UP) if int(exact.as_tuple().exponent) < -3 else exact
