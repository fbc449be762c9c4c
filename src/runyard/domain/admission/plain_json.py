"""Checks that a value is plain JSON: the exact types of the json module, bounded, without null and fractions.

Subclasses of dict or str are refused: they could answer differently on each read. We never send null or fractions,
which readers interpret differently. Unpaired surrogates are refused: they cannot be encoded.
"""

import re
from typing import Any

from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem

MOST_DEPTH = 32
MOST_VALUES = 50_000
_INT64 = 2**63
_SURROGATE = re.compile("[\ud800-\udfff]")


def check_plain_json(given: Any, path: Path) -> list[Problem]:
    """List every part that is not plain JSON."""
    return [] if _is_plain(given) else _list_problems(given, path)


def _is_plain(given: Any) -> bool:
    """Whether there is nothing to report. Level by level, without the paths that only problems need."""
    level, count = [given], 0
    for _ in range(MOST_DEPTH + 1):
        count += len(level)
        if count > MOST_VALUES:
            return False
        below: list[Any] = []
        for value in level:
            if type(value) is dict:
                if not all(map(_is_plain_text, value)):
                    return False
                below += value.values()
            elif type(value) is list:
                below += value
            elif not _is_plain_scalar(value):
                return False
        if not below:
            return True
        level = below
    return False


def _list_problems(given: Any, path: Path) -> list[Problem]:
    problems: list[Problem] = []
    count = 0
    pending: list[tuple[Any, Path]] = [(given, path)]
    while pending:
        value, place = pending.pop()
        count += 1
        if count > MOST_VALUES or len(place) - len(path) > MOST_DEPTH:
            return [*problems, Problem(Code.ADMISSION_SIZE, path, "too large or too deeply nested to check")]
        if type(value) is dict:
            for key, entry in value.items():
                if _is_plain_text(key):
                    pending.append((entry, (*place, key)))
                else:
                    problems.append(Problem(Code.ADMISSION_TYPE, place, "a key is not plain text"))
        elif type(value) is list:
            pending += [(entry, (*place, index)) for index, entry in enumerate(value)]
        elif not _is_plain_scalar(value):
            problems.append(Problem(Code.ADMISSION_TYPE, place, f"not plain JSON: {type(value).__name__}"))
    return problems


def _is_plain_scalar(value: Any) -> bool:
    return _is_plain_text(value) or type(value) is bool or (type(value) is int and -_INT64 <= value < _INT64)


def _is_plain_text(value: Any) -> bool:
    return type(value) is str and (value.isascii() or _SURROGATE.search(value) is None)
