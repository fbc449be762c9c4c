"""The strict JSON reader."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.spec import strict_json
from runyard.spec.strict_json import InvalidJson, count_values, iter_texts, parse_json

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


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1", 1),
        ("[]", 2),
        ('{"a": 1, "b": [1, 2, {"c": null}]}', 7),
        ('"[{,"', 1),
        (r'["\"[{,", "\\", ",", "\\\"{"]', 5),
        ("[" * 10, 11),
    ],
)
@pytest.mark.parametrize("block_bytes", [1, 2, 3, 1 << 18])
def test_values_are_counted_when_the_text_is_not_parsed(
    text: str, count: int, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strict_json, "_BLOCK_BYTES", block_bytes)
    assert count_values(text.encode(), most=100) == count


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(alphabet='a,[{"\\:]}é'),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='a,[{"\\'), inner),
    ),
    st.integers(1, 9),
)
def test_count_is_never_less_than_that_of_the_parsed_text_when_strings_have_brackets(
    document: object, block_bytes: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strict_json, "_BLOCK_BYTES", block_bytes)
        counted = count_values(json.dumps(document).encode(), most=10**6)
    values, empty = count_parsed(document)
    assert counted == values + empty


def test_counting_stops_when_there_are_too_many_values() -> None:
    assert 100 < count_values(b"[" + b"{}," * 1_000_000, most=100) < 1_000_000


def count_parsed(document: object) -> tuple[int, int]:
    """The values of a document, and how many of them are empty lists and mappings, which count twice."""
    inner = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    counts = [count_parsed(value) for value in inner]
    is_empty = isinstance(document, dict | list) and not document
    return 1 + sum(values for values, _ in counts), is_empty + sum(empty for _, empty in counts)
