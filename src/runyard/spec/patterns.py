"""Patterns in policies: `*` matches any text; no other character is special."""

import functools
import re
from typing import Any

from runyard.spec.readers import expect_text


def read_pattern(given: Any) -> str:
    """A pattern: text, bounded."""
    return expect_text(given, what="a pattern", most=512)


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern matches the whole text, case-sensitively, in linear time."""
    first, *middle = _split(pattern)
    if not middle:
        return text == first
    last, position = middle.pop(), len(first)
    if not text.startswith(first):
        return False
    for part in middle:
        found = text.find(part, position)
        if found < 0:
            return False
        position = found + len(part)
    return len(text) - position >= len(last) and text.endswith(last)


@functools.lru_cache(maxsize=4096)
def _split(pattern: str) -> tuple[str, ...]:
    return tuple(re.split(r"\*+", pattern))
