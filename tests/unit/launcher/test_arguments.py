"""Parameters by name and type: what is converted, and what is said of what cannot be."""

import dataclasses
import datetime
import decimal
import enum
import functools
import typing
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.launcher.arguments import Binder
from runyard.launcher.conversions import Mismatch, convert
from runyard.launcher.failures import NotPrepared


class Color(enum.Enum):
    RED = "red"
    BLUE = 2


@dataclasses.dataclass
class Optimizer:
    rate: float
    steps: int = 10
    inner: "Optimizer | None" = None


class Model:
    """As pydantic's models are."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @classmethod
    def model_validate(cls, value: Any) -> "Model":
        if not isinstance(value, dict):
            raise TypeError("not an object")
        return cls(value)


@pytest.mark.parametrize(
    ("value", "wanted", "converted"),
    [
        ("3", int, 3),
        (3.0, int, 3),
        ("1e-3", float, 0.001),
        (2, float, 2.0),
        ("true", bool, True),
        ("No", bool, False),
        (0, bool, False),
        (3, str, "3"),
        (True, str, "true"),
        ("x", Path, Path("x")),
        ("é", bytes, "é".encode()),
        (["1", 2], list[int], [1, 2]),
        (["1", 2], tuple[int, str], (1, "2")),
        (["1", 2], tuple[int, ...], (1, 2)),
        (["a", "a"], set[str], {"a"}),
        ({"a": "1"}, dict[str, int], {"a": 1}),
        ({"a": "1"}, Mapping[str, float], {"a": 1.0}),
        (["1"], Sequence[int], [1]),
        (None, int | None, None),
        ("3", int | None, 3),
        ("3", int | str, "3"),
        ("x", typing.Optional[str], "x"),  # noqa: UP045 - the older spelling
        ("a", Literal["a", 1], "a"),
        ("1", Literal["a", 1], 1),
        ("red", Color, Color.RED),
        ("BLUE", Color, Color.BLUE),
        ("2026-01-31T12:00:00Z", datetime.datetime, datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)),
        ("2026-01-31", datetime.date, datetime.date(2026, 1, 31)),
        ("0.1", decimal.Decimal, decimal.Decimal("0.1")),
        ("12345678123456781234567812345678", uuid.UUID, uuid.UUID("12345678123456781234567812345678")),
        ({"rate": "0.1", "inner": {"rate": 1}}, Optimizer, Optimizer(0.1, 10, Optimizer(1.0))),
        (typing.Annotated, Any, typing.Annotated),
        ("5", typing.Annotated[int, "five"], 5),
        ([1], "unresolved", [1]),
        ({"any": 1}, object, {"any": 1}),
    ],
)
def test_value_is_converted_when_the_annotation_asks_for_it(value: Any, wanted: Any, converted: Any) -> None:
    result = convert(value, wanted)
    assert (result, type(result)) == (converted, type(converted))


@pytest.mark.parametrize(
    ("value", "wanted", "message"),
    [
        (True, int, "true is not a whole number"),
        (1.5, int, "1.5 is not a whole number"),
        ("x" * 100, float, f'"{"x" * 80}…" is not a number'),
        ("maybe", bool, '"maybe" is not true or false'),
        ([1], str, "a list is not text"),
        ("x", list[int], '"x" is not a list'),
        (["x"], list[int], '[0]: "x" is not a whole number'),
        ({"a": {"b": "x"}}, dict[str, dict[str, int]], '[a]: [b]: "x" is not a whole number'),
        ([1], tuple[int, int], "a list of 1 is not a list of 2"),
        (None, int, "null is not a whole number"),
        ("c", Literal["a", "b"], '"c" is not one of "a", "b"'),
        ("c", Color, '"c" is not one of "red", 2'),
        ("soon", datetime.datetime, '"soon" is not a time such as 2026-01-31T12:00:00Z'),
        ({"speed": 1}, Optimizer, "Optimizer has no field speed; it has rate, steps, inner"),
        ({}, Optimizer, "Optimizer needs rate"),
        (1, Optimizer, "1 is not an object (Optimizer)"),
        (1, Model, "1 is not a Model: not an object"),
        (1, type(None), "1 is not null"),
    ],
)
def test_mismatch_names_value_and_type_when_it_cannot_be_converted(value: Any, wanted: Any, message: str) -> None:
    with pytest.raises(Mismatch) as raised:
        convert(value, wanted)
    assert str(raised.value) == message


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
_WANTED: list[Any] = [
    *(int, float, bool, str, bytes, Path, list[int], dict[str, float], tuple[int, str], set[str], int | None, Color),
    *(Literal["a", 1], datetime.datetime, datetime.date, decimal.Decimal, uuid.UUID, Optimizer, Any),
]


@given(value=_JSON, wanted=st.sampled_from(_WANTED))
def test_conversion_only_succeeds_or_mismatches_when_values_are_any_json(value: Any, wanted: Any) -> None:
    text = ""
    try:
        converted = convert(value, wanted)
    except Mismatch as error:
        converted, text = None, str(error)
    assert (converted is None and value is not None) == bool(text) or value is None
    assert len(text) < 1000


def bind(function: Any, values: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    bound = Binder(function, title="the handler").bind(values, provided={"context": lambda: "the context"})
    return bound.positional, dict(bound.named)


def positional(a: int, /, b: int, *, c: int = 3) -> None: ...


def anything(a: int, **rest: Any) -> None: ...


def with_context(context: Any, x: int) -> None: ...


class Callable:
    def __call__(self, x: int) -> None: ...


@functools.wraps(with_context)
def wrapper(*args: Any, **kwargs: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        (positional, {"a": "1", "b": "2"}, ((1,), {"b": 2})),
        (anything, {"a": "1", "z": "2"}, ((), {"a": 1, "z": "2"})),
        (with_context, {"x": "1"}, ((), {"context": "the context", "x": 1})),
        (with_context, {"x": "1", "context": "mine"}, ((), {"context": "mine", "x": 1})),
        (Callable(), {"x": "1"}, ((), {"x": 1})),
        (functools.partial(positional, 1), {"b": "2"}, ((), {"b": 2})),
        (wrapper, {"x": "1"}, ((), {"context": "the context", "x": 1})),
    ],
)
def test_values_are_bound_by_name_when_functions_take_them_in_any_way(
    function: Any, values: dict[str, Any], expected: Any
) -> None:
    assert bind(function, values) == expected


def test_both_are_named_when_a_parameter_is_mistyped() -> None:
    with pytest.raises(NotPrepared) as raised:
        bind(positional, {"a": 1, "bb": 2})
    assert str(raised.value) == "the handler has no parameter bb; nearest: b; the handler needs b"


def test_value_stays_as_it_is_when_its_annotation_cannot_be_evaluated() -> None:
    namespace: dict[str, Any] = {}
    exec("def main(x: 'Missing', y: int): ...", namespace)
    assert bind(namespace["main"], {"x": "1", "y": 2}) == ((), {"x": "1", "y": 2})
