import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.spec.patterns import matches, read_pattern
from tests.unit.spec.refusals import find_problem


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("a", "a"),
        ("*", ""),
        ("*", "anything\nat all"),
        ("a*", "a"),
        ("*a", "banana"),
        ("a*c", "abc"),
        ("a*b*c", "a-b-b-c"),
        ("a**c", "ac"),
        ("LD_*", "LD_PRELOAD"),
        ("*-*-*", "--"),
        ("a.b", "a.b"),
        ("[x]", "[x]"),
    ],
)
def test_a_text_is_meant_when_the_pattern_says_so(pattern: str, text: str) -> None:
    assert matches(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("a", "A"),
        ("a", "a\n"),
        ("a", "ab"),
        ("a*", "ba"),
        ("a*a", "a"),
        ("ab*ba", "aba"),
        ("a*b*c", "acb"),
        ("a.b", "axb"),
        ("[x]", "x"),
        ("", "a"),
        ("a?", "ab"),
    ],
)
def test_a_text_is_not_meant_when_the_pattern_says_otherwise(pattern: str, text: str) -> None:
    assert not matches(pattern, text)


@given(pattern=st.text("ab*", max_size=8), text=st.text("ab", max_size=10))
def test_a_pattern_means_what_a_regular_expression_would_when_stars_stand_for_anything(pattern: str, text: str) -> None:
    expression = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)

    assert matches(pattern, text) == (expression.fullmatch(text) is not None)


def test_an_answer_comes_at_once_when_a_hostile_text_meets_many_stars() -> None:
    # A backtracking matcher would not end within this test's time.
    assert not matches("*a" * 60 + "*b", "a" * 30_000)


@pytest.mark.parametrize("given_", ["", 3, None, ["a"], "a\x00", "a" * 513])
def test_a_pattern_is_refused_when_it_is_no_text(given_: Any) -> None:
    assert find_problem(read_pattern, given_).code.startswith(("text.", "type."))
