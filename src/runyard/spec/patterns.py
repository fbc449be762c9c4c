"""Patterns in policies: text in which `*` stands for anything. Nothing else is special, so nothing surprises."""

import functools
import re
from typing import Any

from runyard.spec.reading import expect_text


def read_pattern(given: Any) -> str:
    """A pattern: text, bounded."""
    return expect_text(given, what="a pattern", most=512)


def matches(pattern: str, text: str) -> bool:
    """Whether the whole text is what the pattern says; case counts."""
    return _compile(pattern).fullmatch(text) is not None


@functools.lru_cache(maxsize=4096)
def _compile(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"\*+", pattern)
    return re.compile(".*".join(map(re.escape, parts)), re.DOTALL)
