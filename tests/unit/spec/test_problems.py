"""Problems: how values are shown, which names are proposed, and how many of them an answer has."""

from collections.abc import Iterator

import pytest

from runyard.spec.problem_codes import Code
from runyard.spec.problems import (
    MOST_CANDIDATES,
    MOST_NEAREST,
    MOST_PROBLEMS,
    PATH_CHARACTERS,
    Problem,
    cap_problems,
    find_nearest,
    format_path,
    limit_nearest,
    shorten,
)

SECRETS = [f"secret-number-{number}" for number in range(1300)]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("secret-nunber-1234", "secret-number-1234"),
        ("secret-numbr-1299", "secret-number-1299"),
        ("Secret_Number_12", "secret-number-12"),
        ("quite-another", None),
        ("", None),
    ],
)
def test_nearest_name_is_found_when_there_are_many(word: str, expected: str | None) -> None:
    assert find_nearest(word, SECRETS) == expected


def test_only_first_searches_are_made_when_a_request_has_many_problems() -> None:
    with limit_nearest():
        with limit_nearest():
            found = [find_nearest("secret-number-x", SECRETS) for _ in range(MOST_NEAREST - 1)]
        found += [find_nearest("secret-number-x", SECRETS) for _ in range(3)]
    assert [name is not None for name in found] == [True] * MOST_NEAREST + [False, False]
    assert find_nearest("secret-number-x", SECRETS) is not None


def test_searches_are_counted_anew_when_another_request_comes() -> None:
    for _ in range(2):
        with limit_nearest():
            assert find_nearest("imaeg", ["image", "name"]) == "image"


def test_others_are_counted_when_there_are_too_many_problems() -> None:
    problems = [Problem(Code.FIELD_UNKNOWN, ("spec", number), "unknown") for number in range(MOST_PROBLEMS + 3)]
    capped = cap_problems(problems)
    assert capped[:-1] == problems[:MOST_PROBLEMS]
    assert capped[-1].to_dict() == {"code": "problems.more", "path": "", "message": "and 3 more"}
    assert cap_problems(problems[:MOST_PROBLEMS]) == problems[:MOST_PROBLEMS]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": [1, "b"]}, '{"a": [1, "b"]}'),
        ([[]] * 5000, "a list with 5000 entries"),
        ({"a": {"b": ["c"] * 5000}}, "a mapping with 1 entries"),
        (["a" * 5000], "a list with 1 entries"),
        ("a" * 5000, "a" * 79 + "…"),
    ],
)
def test_value_is_shown_in_few_characters_when_it_is_large(value: object, expected: str) -> None:
    assert shorten(value) == expected


def test_value_is_not_walked_when_its_lists_share_one_list() -> None:
    # Written out, this list has 2**40 entries.
    nested: list[object] = []
    for _ in range(40):
        nested = [nested, nested]
    assert shorten(nested) == "a list with 2 entries"


def test_key_is_cut_when_a_path_shows_it() -> None:
    assert format_path(("spec", "k" * 10_000, 3)) == f"spec[{'k' * (PATH_CHARACTERS - 1)}…][3]"
    assert format_path(("spec", "k" * PATH_CHARACTERS)) == f"spec.{'k' * PATH_CHARACTERS}"


def test_few_names_are_taken_when_a_nearest_one_is_searched_among_very_many() -> None:
    taken: list[str] = []

    def iterate() -> Iterator[str]:
        for number in range(20_000):
            taken.append(f"secret-number-{number}")
            yield taken[-1]

    assert find_nearest("secret-nunber-1234", iterate()) == "secret-number-1234"
    assert len(taken) <= MOST_CANDIDATES + 1
