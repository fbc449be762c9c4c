"""No regular expression of runyard takes more than linear time, whatever the text."""

import re

import pytest

from tests.unit.architecture.matchers import Matcher, Overrun, iter_hostile, list_matchers, list_unread, run_within

LENGTH = 60_000
"""A linear expression takes less than 15 ms for so many characters, a quadratic one seconds."""
SECONDS = 0.1
ATTEMPTS = 3
"""The shortest counts: the collector of garbage takes processor time too."""
LIMITED = {"cli.command_errors._PROPOSAL": (1000, "a message about the caller's own command line")}
"""Expressions that are not linear: the most characters that they are given, and why."""
UNREAD = {
    "spec.names": "sets of characters",
    "spec.yaml.syntax_errors": "words in PyYAML's own messages",
    "domain.admission.labels_and_annotations": "numbers and words",
    "cli.findings": "a word",
    "engines.local.process_usage": "a line of the kernel",
    "store.postgresql_backups": "a line of a backup",
}
"""Modules whose expressions have variable parts, and what they are."""


def find_slow(matcher: Matcher, *, length: int) -> str | None:
    """The first text for which the expression takes too long."""
    return next((text for text in iter_hostile(matcher.pattern, length=length) if is_slow(matcher, text)), None)


def is_slow(matcher: Matcher, text: str) -> bool:
    for _ in range(ATTEMPTS):
        try:
            run_within(matcher, text, seconds=SECONDS)
        except Overrun:
            continue
        return False
    return True


def test_no_expression_is_slow_when_texts_are_hostile() -> None:
    matchers = list_matchers()
    assert len(matchers) > 100
    limits = {name: length for name, (length, _) in LIMITED.items()}
    slow = {
        f"{matcher.name}: {matcher.pattern.pattern!r}": f"{text[:60]!r}…"
        for matcher in matchers
        if (text := find_slow(matcher, length=limits.get(matcher.name, LENGTH))) is not None
    }
    assert slow == {}, "make their parts disjoint or possessive, so that a text can be divided in one way only"


def test_expressions_are_read_when_they_have_no_variable_parts() -> None:
    assert set(list_unread()) == UNREAD.keys()


@pytest.mark.parametrize(
    ("pattern", "is_searched"),
    [
        (r"(a+)+b", False),
        (r"\s*\{\{\s*(\w+)\s*\}\}", True),
        (r"[a-z]+/[a-z]+(\s*;\s*[a-z=\"' -]+)*", False),
        (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+", True),
        (r"[0-9]+\.?[0-9]*[a-z]+", False),
        (r"open (.*) close (.*) end", True),
        (r"-*\.[-.]*", True),
    ],
)
def test_expression_is_found_slow_when_it_is(pattern: str, is_searched: bool) -> None:
    assert find_slow(Matcher("planted", re.compile(pattern), is_searched), length=LENGTH) is not None


@pytest.mark.parametrize(
    ("pattern", "is_searched"),
    [(r"[a-z]+(?:-[a-z]+)*", False), (r"\{\{([^{}]*+)\}\}", True), (r"(?<!\s)\s++x", True)],
)
def test_expression_passes_when_it_is_linear(pattern: str, is_searched: bool) -> None:
    assert find_slow(Matcher("planted", re.compile(pattern), is_searched), length=LENGTH) is None
