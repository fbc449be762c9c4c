"""The strict JSON reader."""

from typing import Any

import pytest

from runyard.spec.strict_json import InvalidJson, iter_texts, parse_json

READ: list[Any] = [
    ('{"a": [1, -2.5, true, null, "x"]}', {"a": [1, -2.5, True, None, "x"]}),
    ('"\\ud83d\\ude00"', "😀"),
    ('"\\\\ud800"', "\\ud800"),
    ("123", 123),
    ('"a\\u0000b"', "a\0b"),
]


@pytest.mark.parametrize(("text", "value"), READ)
def test_value_is_read_when_the_text_is_json(text: str, value: Any) -> None:
    assert parse_json(text) == value


REFUSED: list[Any] = [
    ("", "Expecting value at line 1, column 1"),
    ('{\n "a" 1}', "Expecting ':' delimiter at line 2, column 6"),
    ('{"a": 1, "b": 2, "a": 3}', "the key `a` is there twice"),
    ('[{"b": 1, "b": 1}]', "the key `b` is there twice"),
    ("NaN", "NaN is not a number in JSON"),
    ("[-Infinity]", "-Infinity is not a number in JSON"),
    ("1e999", "the number 1e999 is too large"),
    ("12345", "a number has 5 digits"),
    ('"\\ud800"', "a text has an unpaired surrogate, half a character"),
    ('{"\\udfff": 1}', "a text has an unpaired surrogate, half a character"),
    ("[" * 100_000, "it is nested too deeply"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_fault_is_named_when_the_text_is_not_strict_json(text: str, message: str) -> None:
    with pytest.raises(InvalidJson) as caught:
        parse_json(text, most_digits=4)
    assert str(caught.value) == message


def test_integer_is_bounded_by_python_when_no_bound_is_given() -> None:
    assert parse_json("9" * 300) == int("9" * 300)
    with pytest.raises(InvalidJson, match="4300 digits"):
        parse_json("9" * 5000)


def test_every_text_is_found_when_a_document_is_nested() -> None:
    assert sorted(iter_texts({"a": ["b", {"c": 1, "d": "e"}], "f": None})) == ["a", "b", "c", "d", "e", "f"]
