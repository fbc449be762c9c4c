import re
from typing import Any

import pytest

from runyard.domain.placeholders import PlaceholderError, fill, find_problem

VALUES = {"input": {"key": "store://p/m", "size": 3, "is_new": True, "none": None, "spec": {"path": "s3://b/<a&b>"}}}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{input.key}}", "store://p/m"),
        ("a {{ input.size }} b {{input.is_new}}", "a 3 b true"),
        ("{{input.spec.path}}", "s3://b/<a&b>"),
        ("{{{input.spec.path}}}", "s3://b/<a&b>"),
        ("{{&input.spec.path}}", "s3://b/<a&b>"),
        ("[{{input.none}}]", "[]"),
        ({"a": ["{{input.size}}", 1, None]}, {"a": ["3", 1, None]}),
        ("no tags { here }", "no tags { here }"),
    ],
)
def test_values_are_filled_in_as_they_are_when_they_are_known(template: Any, expected: Any) -> None:
    assert fill(template, VALUES) == expected
    assert find_problem(template, roots=("input",)) is None


def test_value_is_not_read_again_when_it_looks_like_a_placeholder() -> None:
    assert fill("{{input.key}}", {"input": {"key": "{{input.secret}}", "secret": "x"}}) == "{{input.secret}}"


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ({"args": ["x", "{{input.kye}}"]}, r"template\.args\[1\]: .*did you mean `key`"),
        ("{{other.key}}", "known: input"),
        ("{{input.key.more}}", "`more` does not exist"),
        ("{{input.spec}}", "is not a single value"),
        ("{{#input}}x{{/input}}", "is not a variable"),
        ("{{input.__class__.__init__}}", "`__class__` does not exist"),
        ("{{}}", "is not a variable"),
    ],
)
def test_place_is_named_when_a_placeholder_has_no_value(template: Any, words: str) -> None:
    with pytest.raises(PlaceholderError, match=words):
        fill(template, VALUES)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ({"a": [{"b": "{{#each}}"}]}, r"a\[0\]\.b: .*is not a variable"),
        ("{{env.HOME}}", "`env` is unknown"),
        ("{{input.key", "not closed"),
    ],
)
def test_problem_is_found_before_there_are_values_when_it_can_be(template: Any, words: str) -> None:
    found = find_problem(template, roots=("input",))
    assert found is not None
    assert re.search(words, found)
