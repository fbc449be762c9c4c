"""Forms of objects: which keys an object may have, and what may stand under each. What is not known is refused."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from runyard.spec.kubernetes.quantity import Quantity, QuantityError
from runyard.spec.problems import Path, Problem, find_nearest

Shape = Callable[[Any, Path], Iterable[Problem]]
"""What is wrong with a value of plain JSON, as one form has it."""


def keys(required: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    """A mapping with these keys and no others."""
    known = {**required, **(optional or {})}

    def check(given: Any, path: Path) -> Iterable[Problem]:
        if type(given) is not dict:
            yield _wrong_type(path, "a mapping")
            return
        for key, value in given.items():
            shape = known.get(key)
            if shape is None:
                nearest = find_nearest(key, known)
                yield Problem("admission.unknown", (*path, key), "this is never sent", suggestion=nearest)
            else:
                yield from shape(value, (*path, key))
        for key in required:
            if key not in given:
                yield Problem("admission.missing", (*path, key), "this is always sent")

    return check


def one_of(
    required: Mapping[str, Shape], choices: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None
) -> Shape:
    """A mapping with exactly one of the choices, beside its other keys."""
    check_keys = keys(required, {**choices, **(optional or {})})

    def check(given: Any, path: Path) -> Iterable[Problem]:
        yield from check_keys(given, path)
        if type(given) is dict and len(chosen := [key for key in choices if key in given]) != 1:
            message = f"must have exactly one of {', '.join(choices)}, not {len(chosen)}"
            yield Problem("admission.choice", path, message)

    return check


def each(shape: Shape, *, least: int = 0, most: int = 256) -> Shape:
    """A list of so many."""

    def check(given: Any, path: Path) -> Iterable[Problem]:
        if type(given) is not list:
            yield _wrong_type(path, "a list")
            return
        if not least <= len(given) <= most:
            allowed = str(least) if least == most else f"{least} to {most}"
            yield Problem("admission.count", path, f"has {len(given)} entries", allowed=allowed)
        for index, entry in enumerate(given):
            yield from shape(entry, (*path, index))

    return check


def pairs(check_key: Callable[[str], str | None], shape: Shape) -> Shape:
    """A mapping of free keys."""

    def check(given: Any, path: Path) -> Iterable[Problem]:
        if type(given) is not dict:
            yield _wrong_type(path, "a mapping")
            return
        for key, value in given.items():
            if error := check_key(key):
                yield Problem("admission.name", (*path, key), f"the key {error}")
            yield from shape(value, (*path, key))

    return check


def only(*values: str | int | bool) -> Shape:
    """One of these values, of the same type."""

    def check(given: Any, path: Path) -> Iterable[Problem]:
        if not any(type(given) is type(value) and given == value for value in values):
            allowed = ", ".join(str(value).lower() if isinstance(value, bool) else str(value) for value in values)
            yield Problem("admission.value", path, "must not be so", value=_show(given), allowed=allowed)

    return check


def integer(least: int, most: int) -> Shape:
    """A whole number within bounds; true is none."""

    def check(given: Any, path: Path) -> Iterable[Problem]:
        if type(given) is not int or not least <= given <= most:
            allowed = f"a whole number from {least} to {most}"
            yield Problem("admission.value", path, "is out of range", value=_show(given), allowed=allowed)

    return check


def named(check_name: Callable[[str], str | None]) -> Shape:
    """Text that is a legal name."""

    def check(given: Any, path: Path) -> Iterable[Problem]:
        if type(given) is not str:
            yield _wrong_type(path, "text")
        elif error := check_name(given):
            yield Problem("admission.name", path, error, value=given)

    return check


def text(given: Any, path: Path) -> Iterable[Problem]:
    """Any text."""
    if type(given) is not str:
        yield _wrong_type(path, "text")


def flag(given: Any, path: Path) -> Iterable[Problem]:
    """True or false."""
    if type(given) is not bool:
        yield _wrong_type(path, "true or false")


def amount(given: Any, path: Path) -> Iterable[Problem]:
    """A quantity as text, not negative, that Kubernetes can count."""
    if type(given) is not str:
        yield _wrong_type(path, "a quantity as text")
        return
    try:
        quantity = Quantity.parse(given)
    except QuantityError as error:
        yield Problem("admission.value", path, str(error), value=given)
    else:
        if quantity.is_negative or not quantity.is_countable:
            yield Problem("admission.value", path, "is negative, or more than can be counted", value=given)


def _wrong_type(path: Path, expected: str) -> Problem:
    return Problem("admission.type", path, f"must be {expected}")


def _show(given: Any) -> Any:
    return given if isinstance(given, str | int | bool) else None
