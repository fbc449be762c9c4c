import re
from typing import Any

import pytest

from runyard.domain import placeholders
from runyard.domain.placeholders import (
    MOST_FILLED_CHARACTERS,
    MOST_NAME_CHARACTERS,
    MOST_PLACEHOLDERS,
    PlaceholderError,
    fill,
    find_problem,
)

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


HOSTILE_TEMPLATES = [
    ("{{" + " " * 200_000, "a placeholder is not closed"),
    ("{{" * 100_000, "more than 1000 placeholders"),
    ("{{ a" * 50_000, "more than 1000 placeholders"),
    ("{{{" + " " * 200_000 + "}", "a placeholder is not closed"),
]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("template", "words"), HOSTILE_TEMPLATES, ids=["spaces", "braces", "names", "three"])
def test_template_is_read_in_linear_time_when_its_placeholders_never_close(template: str, words: str) -> None:
    assert words in str(find_problem(template, roots=("input",)))
    assert fill(template, VALUES) == template


def test_placeholders_are_not_searched_when_a_template_has_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placeholders, "_TAG", None)
    template = {"args": ["a", "{" * 3000]}
    assert find_problem(template, roots=("input",)) == f"more than {MOST_PLACEHOLDERS} placeholders"


def test_template_is_refused_when_the_name_of_a_placeholder_is_too_long() -> None:
    found = find_problem({"image": "{{input" + ".a" * MOST_NAME_CHARACTERS + "}}"}, roots=("input",))
    assert found is not None
    assert found.startswith("image: `{{input.a.a.a")
    assert found.endswith(f"` is longer than {MOST_NAME_CHARACTERS} characters")


def test_template_is_refused_when_its_values_together_are_too_long() -> None:
    long = "x" * (MOST_FILLED_CHARACTERS // 4)
    template = {"args": ["{{input.long}}"] * 5}
    with pytest.raises(PlaceholderError, match=r"template\.args\[4\]: `{{input.long}}` makes all values longer than"):
        fill(template, {"input": {"long": long}})
    assert fill({"args": ["{{input.long}}"] * 4}, {"input": {"long": long}}) == {"args": [long] * 4}


def test_template_is_refused_when_it_has_too_many_placeholders() -> None:
    template = {"args": ["{{input.key}}" * 600] * 2}
    assert find_problem(template, roots=("input",)) == f"more than {MOST_PLACEHOLDERS} placeholders"
    with pytest.raises(PlaceholderError, match=f"more than {MOST_PLACEHOLDERS} placeholders"):
        fill(template, VALUES)
