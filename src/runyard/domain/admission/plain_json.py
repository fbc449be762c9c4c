"""Whether something is plain JSON: the exact types of the json module, bounded, without null and without fractions.

A subclass of dict or str may answer differently each time it is asked, so none is taken. What we send has no null and
no fraction anywhere; both mean something else to some reader.
"""

import re
from typing import Any

from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem

MOST_DEPTH = 32
MOST_VALUES = 50_000
_INT64 = 2**63
_SURROGATE = re.compile("[\ud800-\udfff]")


def check_plain(given: Any, path: Path) -> list[Problem]:
    """What is not plain in it; empty where all of it is."""
    problems: list[Problem] = []
    count = 0
    pending: list[tuple[Any, Path]] = [(given, path)]
    while pending:
        value, place = pending.pop()
        count += 1
        if count > MOST_VALUES or len(place) - len(path) > MOST_DEPTH:
            return [*problems, Problem(Code.ADMISSION_SIZE, path, "is too large or too deep to be judged")]
        if type(value) is dict:
            for key, entry in value.items():
                if _is_plain_text(key):
                    pending.append((entry, (*place, key)))
                else:
                    problems.append(Problem(Code.ADMISSION_TYPE, place, "has a key that is not plain text"))
        elif type(value) is list:
            pending += [(entry, (*place, index)) for index, entry in enumerate(value)]
        elif not (_is_plain_text(value) or type(value) is bool or (type(value) is int and -_INT64 <= value < _INT64)):
            problems.append(Problem(Code.ADMISSION_TYPE, place, f"is not plain JSON: {type(value).__name__}"))
    return problems


def _is_plain_text(value: Any) -> bool:
    return type(value) is str and (value.isascii() or _SURROGATE.search(value) is None)
