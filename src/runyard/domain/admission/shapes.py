"""Closed shapes of objects: the keys that an object may have, and the shape of each value. Anything else is refused.

The readers are those of `spec.kubernetes.object_reader`. The policy here: field names are exact, every key must be one
that we send, and problems carry `admission.*` codes. `plain_json.py` runs first and refuses null and subclasses.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from runyard.spec.kubernetes.object_reader import (
    Reader,
    integer_reader,
    list_reader,
    map_reader,
    read_fields,
    read_flag,
    read_text,
    require,
    text_reader,
)
from runyard.spec.kubernetes.quantity import Quantity, QuantityError
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem
from runyard.spec.readers import Findings

Shape = Reader
"""Reports what is wrong with a value of plain JSON; its return value is not used."""

_CODES: Mapping[Code, Code] = MappingProxyType(
    {
        Code.FIELD_MISSING: Code.ADMISSION_MISSING,
        Code.FIELD_UNKNOWN: Code.ADMISSION_UNKNOWN,
        Code.NUMBER_RANGE: Code.ADMISSION_VALUE,
        Code.SIZE_ENTRIES: Code.ADMISSION_COUNT,
        Code.TYPE_BOOLEAN: Code.ADMISSION_TYPE,
        Code.TYPE_INTEGER: Code.ADMISSION_VALUE,
        Code.TYPE_KEY: Code.ADMISSION_TYPE,
        Code.TYPE_LIST: Code.ADMISSION_TYPE,
        Code.TYPE_MAPPING: Code.ADMISSION_TYPE,
        Code.TYPE_TEXT: Code.ADMISSION_TYPE,
    }
)


class _AdmissionFindings(Findings):
    """Collects problems under the codes of admission."""

    def add(
        self,
        code: Code,
        path: Path,
        message: str,
        *,
        value: Any = None,
        allowed: str | None = None,
        suggestion: str | None = None,
    ) -> None:
        code = _CODES.get(code, code)
        if code == Code.ADMISSION_TYPE:  # the value may be a secret's
            value = suggestion = None
        shown = value if isinstance(value, str | int | bool) else None
        super().add(code, path, message, value=shown, allowed=allowed, suggestion=suggestion)


def check_shape(shape: Shape, given: Any, path: Path) -> list[Problem]:
    """Everything in which a value differs from a shape."""
    findings = _AdmissionFindings()
    shape(given, findings, path)
    return findings.problems


def keys(required: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    """A mapping with these keys and no others."""
    known = {**required, **(optional or {})}
    names, needed = known.keys(), required.keys()

    def read(given: Any, findings: Findings, path: Path) -> Any:
        if type(given) is dict and needed <= given.keys() <= names and None not in given.values():
            for name, value in given.items():
                known[name](value, findings, (*path, name))
            return given
        fields = read_fields(given, findings, path, known, of="an object", accepts_snake_case=False)
        if fields is not None:
            require(fields, findings, *required, of="the object")
        return given

    return read


def one_of(
    required: Mapping[str, Shape], choices: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None
) -> Shape:
    """A mapping with exactly one of the choices, beside its other keys."""
    read_keys = keys(required, {**choices, **(optional or {})})

    def read(given: Any, findings: Findings, path: Path) -> Any:
        read_keys(given, findings, path)
        if isinstance(given, Mapping) and len(chosen := [key for key in choices if key in given]) != 1:
            message = f"must have exactly one of {', '.join(choices)}, not {len(chosen)}"
            findings.add(Code.ADMISSION_CHOICE, path, message)
        return given

    return read


def each(shape: Shape, *, least: int = 0, most: int = 256) -> Shape:
    """A list of `least` to `most` entries."""
    return list_reader(shape, of="entries", least=least, most=most)


def pairs(check_key: Callable[[str], str | None], shape: Shape) -> Shape:
    """A mapping with free keys that pass `check_key`."""

    def check(key: str) -> str | None:
        error = check_key(key)
        return None if error is None else f"the key {error}"

    return map_reader(text_reader(check, Code.ADMISSION_NAME), shape, of="names to values", most=None)


def only(*values: str | int | bool) -> Shape:
    """One of these values, of the same type."""
    allowed = ", ".join(str(value).lower() if isinstance(value, bool) else str(value) for value in values)

    def read(given: Any, findings: Findings, path: Path) -> Any:
        if not any(type(given) is type(value) and given == value for value in values):
            findings.add(Code.ADMISSION_VALUE, path, "is not an allowed value", value=given, allowed=allowed)
        return given

    return read


def integer(least: int, most: int) -> Shape:
    """A whole number within bounds; a boolean is not a number."""
    return integer_reader(least=least, most=most)


def named(check_name: Callable[[str], str | None]) -> Shape:
    """Text that is a valid name."""
    return text_reader(check_name, Code.ADMISSION_NAME)


text: Shape = read_text
flag: Shape = read_flag


def amount(given: Any, findings: Findings, path: Path) -> Any:
    """A quantity as text, not negative, that fits into 64 bits."""
    quantity_text = read_text(given, findings, path)
    if quantity_text is None:
        return None
    try:
        quantity = Quantity.parse(quantity_text)
    except QuantityError as error:
        findings.add(Code.ADMISSION_VALUE, path, str(error), value=given)
        return None
    if quantity.is_negative or not quantity.is_countable:
        findings.add(Code.ADMISSION_VALUE, path, "is negative, or too large for 64 bits", value=given)
    return given
