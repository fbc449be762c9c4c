"""JSON values as the types that a handler's annotations ask for.

The rules are a table for users: docs/users/python-functions.md. An annotation that is not in it changes nothing.
"""

import dataclasses
import datetime
import decimal
import enum
import pathlib
import types
import typing
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_SHOWN_CHARACTERS = 80


class Mismatch(Exception):
    """The value is not of the type. The text says what it is and what is expected."""


def convert(value: Any, wanted: Any) -> Any:
    """The value as the annotation asks for; raises `Mismatch`. The value itself for an unknown annotation."""
    if wanted is Any or wanted is object or isinstance(wanted, str | typing.TypeVar):
        return value
    origin = typing.get_origin(wanted)
    if origin is typing.Annotated:
        return convert(value, typing.get_args(wanted)[0])
    if origin is typing.Literal:
        return _convert_literal(value, typing.get_args(wanted))
    if origin in (typing.Union, types.UnionType):
        return _convert_union(value, typing.get_args(wanted))
    if wanted is None or wanted is type(None):
        if value is None:
            return None
        raise _mismatch(value, "null")
    if origin is not None:
        return _convert_generic(value, origin, typing.get_args(wanted))
    return _convert_class(value, wanted) if isinstance(wanted, type) else value


def describe_value(value: Any) -> str:
    """The value for a message, shortened."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return f'"{value[:_SHOWN_CHARACTERS]}{"…" if len(value) > _SHOWN_CHARACTERS else ""}"'
    if isinstance(value, int | float):
        return str(value)[:_SHOWN_CHARACTERS]
    if isinstance(value, bytes):
        return "a body of bytes"
    return "a list" if isinstance(value, list | tuple) else "an object" if isinstance(value, dict) else "a value"


def _mismatch(value: Any, expected: str) -> Mismatch:
    return Mismatch(f"{describe_value(value)} is not {expected}")


def _convert_class(value: Any, wanted: type) -> Any:
    if (converter := _CONVERTERS.get(wanted)) is not None:
        return converter(value)
    if isinstance(value, wanted):
        return value
    if issubclass(wanted, enum.Enum):
        return _convert_enum(value, wanted)
    if callable(validate := getattr(wanted, "model_validate", None)):
        return _validate(value, validate, wanted)
    if dataclasses.is_dataclass(wanted):
        return _convert_dataclass(value, wanted)
    return value


def _convert_int(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            pass
    raise _mismatch(value, "a whole number")


def _convert_float(value: Any) -> float:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    raise _mismatch(value, "a number")


def _convert_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower() if isinstance(value, str | int) else ""
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise _mismatch(value, "true or false")


def _convert_str(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return describe_value(value) if isinstance(value, bool) else str(value)
    if isinstance(value, pathlib.PurePath):
        return str(value)
    raise _mismatch(value, "text")


def _convert_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise _mismatch(value, "text")


def _convert_path(value: Any) -> pathlib.Path:
    if isinstance(value, str | pathlib.PurePath):
        return pathlib.Path(value)
    raise _mismatch(value, "a path")


def _make_reader(kind: Any, expected: str, *, types_read: tuple[type, ...] = (str,)) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if isinstance(value, kind) and not (kind is datetime.date and isinstance(value, datetime.datetime)):
            return value
        if isinstance(value, types_read) and not isinstance(value, bool):
            try:
                parse = getattr(kind, "fromisoformat", None) or kind
                return parse(_make_readable(str(value)) if kind is datetime.datetime else str(value))
            except (ValueError, ArithmeticError):
                pass
        raise _mismatch(value, expected)

    return read


def _make_readable(text: str) -> str:
    """Python 3.10 does not read `Z`."""
    return f"{text[:-1]}+00:00" if text.endswith(("Z", "z")) else text


def _convert_list(value: Any, member: Any = Any) -> list[Any]:
    if isinstance(value, list | tuple | set | frozenset):
        return [_convert_member(item, member, index) for index, item in enumerate(value)]
    raise _mismatch(value, "a list")


def _convert_dict(value: Any, key: Any = Any, member: Any = Any) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return {convert(name, key): _convert_member(item, member, name) for name, item in value.items()}
    raise _mismatch(value, "an object")


def _convert_member(value: Any, wanted: Any, at: Any) -> Any:
    try:
        return convert(value, wanted)
    except Mismatch as error:
        raise Mismatch(f"[{at}]: {error}") from None


def _convert_tuple(value: Any, members: Sequence[Any]) -> tuple[Any, ...]:
    if len(members) == 2 and members[1] is Ellipsis:
        return tuple(_convert_list(value, members[0]))
    items = _convert_list(value)
    if not members:
        return tuple(items)
    if len(items) != len(members):
        raise Mismatch(f"a list of {len(items)} is not a list of {len(members)}")
    return tuple(
        _convert_member(item, wanted, at) for at, (item, wanted) in enumerate(zip(items, members, strict=True))
    )


def _convert_generic(value: Any, origin: Any, members: tuple[Any, ...]) -> Any:
    if not isinstance(origin, type):
        return value
    if issubclass(origin, tuple):
        return _convert_tuple(value, members)
    if issubclass(origin, set | frozenset) or origin is Set:
        kind = frozenset if issubclass(origin, frozenset) else set
        return kind(_convert_list(value, *members[:1]))
    if issubclass(origin, Mapping):
        return _convert_dict(value, *members[:2])
    if issubclass(origin, Iterable):
        return _convert_list(value, *members[:1])
    return value


def _convert_literal(value: Any, allowed: tuple[Any, ...]) -> Any:
    for each in allowed:
        if type(each) is type(value) and each == value:
            return each
    for each in allowed:
        if _attempt(value, type(each)) == (each, None):
            return each
    raise _mismatch(value, f"one of {', '.join(map(describe_value, allowed[:20]))}")


def _convert_union(value: Any, members: tuple[Any, ...]) -> Any:
    """The first member that is the value's own type, else the first that it can be converted to."""
    if any(member is type(value) for member in members):
        return value
    attempts = [_attempt(value, member) for member in members]
    for converted, problem in attempts:
        if problem is None:
            return converted
    raise Mismatch(attempts[0][1])


def _attempt(value: Any, wanted: Any) -> tuple[Any, str | None]:
    try:
        return convert(value, wanted), None
    except Mismatch as error:
        return None, str(error)


def _convert_enum(value: Any, wanted: type[enum.Enum]) -> enum.Enum:
    members = list(wanted)
    for each in members:
        if each.value == value:
            return each
    for each in members:
        if each.name == value:
            return each
    raise _mismatch(value, f"one of {', '.join(describe_value(each.value) for each in members[:20])}")


def _validate(value: Any, validate: Callable[[Any], Any], wanted: type) -> Any:
    """A pydantic model validates itself."""
    try:
        return validate(value)
    except (TypeError, ValueError) as error:
        raise Mismatch(f"{describe_value(value)} is not a {wanted.__name__}: {str(error)[:500]}") from None


def _convert_dataclass(value: Any, wanted: Any) -> Any:
    if not isinstance(value, Mapping):
        raise _mismatch(value, f"an object ({wanted.__name__})")
    known = {field.name: field for field in dataclasses.fields(wanted) if field.init}
    unknown = [str(name) for name in value if name not in known]
    if unknown:
        raise Mismatch(f"{wanted.__name__} has no field {unknown[0][:_SHOWN_CHARACTERS]}; it has {', '.join(known)}")
    hints = read_hints(wanted)
    given = {name: _convert_member(item, hints.get(name, Any), name) for name, item in value.items()}
    missing = [
        name
        for name, field in known.items()
        if name not in given and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise Mismatch(f"{wanted.__name__} needs {', '.join(missing)}")
    return wanted(**given)


def read_hints(owner: Any) -> dict[str, Any]:
    """The annotations; one that cannot be evaluated is left out, and its value stays as it is."""
    try:
        return typing.get_type_hints(owner, include_extras=True)
    except Exception:  # noqa: BLE001 - annotations are user code, and names under TYPE_CHECKING do not exist
        annotations = getattr(owner, "__annotations__", {})
        return {name: hint for name, hint in annotations.items() if not isinstance(hint, str)}


_CONVERTERS: Mapping[Any, Callable[[Any], Any]] = {
    int: _convert_int,
    float: _convert_float,
    bool: _convert_bool,
    str: _convert_str,
    bytes: _convert_bytes,
    list: _convert_list,
    dict: _convert_dict,
    tuple: lambda value: tuple(_convert_list(value)),
    set: lambda value: set(_convert_list(value)),
    frozenset: lambda value: frozenset(_convert_list(value)),
    pathlib.Path: _convert_path,
    pathlib.PurePath: _convert_path,
    datetime.datetime: _make_reader(datetime.datetime, "a time such as 2026-01-31T12:00:00Z"),
    datetime.date: _make_reader(datetime.date, "a date such as 2026-01-31"),
    datetime.time: _make_reader(datetime.time, "a time of day such as 12:00:00"),
    decimal.Decimal: _make_reader(decimal.Decimal, "a decimal number", types_read=(str, int, float)),
    uuid.UUID: _make_reader(uuid.UUID, "a UUID"),
}
