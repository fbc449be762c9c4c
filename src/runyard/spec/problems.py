"""Problems of an input: path, message, allowed values and the nearest correct one."""

import difflib
import heapq
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from runyard.spec.problem_codes import Code

Path = tuple[str | int, ...]

VALUE_CHARACTERS = 80
PATH_CHARACTERS = 256
"""Characters of a key that a path shows; it shows names in full."""
LONG_LIST_CHARACTERS = 60
"""A list of allowed values that is longer is written once per report."""
READ_CHARACTERS = 1000
"""Characters and entries of a value that are looked at to show it."""
MOST_BITS = 256
"""Longer integers are described, not printed: `str` raises ValueError for integers of thousands of digits."""
MOST_PROBLEMS = 200
"""Problems in one answer; the others are counted."""
MOST_NEAREST = 5
"""Nearest names that are searched for one request; a search takes up to some milliseconds."""
MOST_CANDIDATES = 2000
"""Known names among which a nearest one is searched; of more, as many as come first: to sort them all takes long."""
MOST_COMPARED = 16
"""Candidates that are compared in full: those that begin and end like the word and are about as long."""
MOST_COMPARED_CHARACTERS = 48
"""Characters of a word that are compared: the comparison takes quadratic time."""
_searches: ContextVar[list[None] | None] = ContextVar("searches", default=None)
"""One entry for each search that the request has left; None outside of requests."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One error or warning. `message` is complete by itself and never contains the value of a secret."""

    code: Code
    """Dotted and stable, for programs: `field.unknown`, `quantity.invalid`, `policy.max`."""
    path: Path
    message: str
    value: Any = None
    """The value at that path, or None where showing it does not help."""
    allowed: str | None = None
    """The values allowed there, in words."""
    suggestion: str | None = None
    """The nearest valid value, ready to be used."""

    def __post_init__(self) -> None:
        for name in ("message", "allowed", "suggestion"):
            text = getattr(self, name)
            if text is not None and not text.isascii():
                object.__setattr__(self, name, make_sendable(text))
        if not (self.value is None or isinstance(self.value, str | bool | float)):
            is_small = isinstance(self.value, int) and self.value.bit_length() <= MOST_BITS
            object.__setattr__(self, "value", self.value if is_small else shorten(self.value))

    @property
    def where(self) -> str:
        """The path as people write it: `volumes[0].spec.size`."""
        return format_path(self.path)

    def under(self, *prefix: str | int) -> "Problem":
        """The same problem, with its path inside a larger document."""
        return replace(self, path=(*prefix, *self.path))

    def to_dict(self) -> dict[str, Any]:
        """For JSON; empty parts are left out."""
        shown: dict[str, Any] = {"code": self.code.value, "path": self.where, "message": self.message}
        if self.value is not None:
            shown["value"] = shorten(self.value) if isinstance(self.value, str) else self.value
        if self.allowed:
            shown["allowed"] = self.allowed
        if self.suggestion:
            shown["suggestion"] = self.suggestion
        return shown

    def __str__(self) -> str:
        parts = [f"{self.where}: {self.message}" if self.path else self.message]
        if self.value is not None:
            parts.append(f"given: {shorten(self.value)}")
        if self.allowed:
            parts.append(f"allowed: {self.allowed}")
        if self.suggestion:
            parts.append(f"did you mean: {self.suggestion}")
        return "; ".join(parts)


class Refused(Exception):
    """An input was refused; `problems` has all of its problems, not only the first."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return format_problems(self.problems)


def format_problems(problems: Iterable[Problem]) -> str:
    """One line per problem; a long list of allowed values is written once."""
    return "\n".join(map(str, omit_repeated_lists(problems)))


def omit_repeated_lists(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the problems of one report; a long list of allowed values is only in the first problem that has it."""
    shown: set[str] = set()
    for problem in problems:
        allowed = problem.allowed or ""
        if len(allowed) > LONG_LIST_CHARACTERS and allowed in shown:
            yield replace(problem, allowed="as above")
        else:
            shown.add(allowed)
            yield problem


def format_path(path: Sequence[str | int]) -> str:
    """`("volumes", 0, "spec")` as `volumes[0].spec`; keys with dots or slashes in brackets."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        if len(part) > PATH_CHARACTERS:
            part = f"{part[: PATH_CHARACTERS - 1]}…"  # noqa: PLW2901 - the same part, shown
        if part and all(character.isalnum() or character in "_-" for character in part):
            text += f".{part}" if text else part
        else:
            text += f"[{part}]"
    return make_sendable(text)


def shorten(value: object) -> str:
    """A value as shown in messages: one line of bounded length."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, str):
        value = value[:READ_CHARACTERS]
    elif isinstance(value, Mapping | list | tuple) and _is_long(value):
        return f"a {'mapping' if isinstance(value, Mapping) else 'list'} with {len(value)} entries"
    try:
        text = " ".join(_write_value(value).split())
    except ValueError:  # an integer of thousands of digits somewhere inside
        return f"a {'mapping' if isinstance(value, Mapping) else 'list'} with a number too long to show"
    except TypeError:  # a key that JSON does not have
        return f"a mapping with {len(value)} entries" if isinstance(value, Mapping) else "a list with a strange key"
    return make_sendable(text if len(text) <= VALUE_CHARACTERS else f"{text[: VALUE_CHARACTERS - 1]}…")


def _write_value(value: object) -> str:
    """A value as users write it: JSON for what is not text or a number."""
    if value is None or isinstance(value, bool | Mapping | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _is_long(value: Any) -> bool:
    """Whether a list or mapping has more characters or entries, nested ones included, than are worth writing."""
    waiting, left = [value], READ_CHARACTERS
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            left -= len(part)
        elif isinstance(part, Mapping | list | tuple):
            left -= len(part) + 1
            if left >= 0:
                waiting += [*part.keys(), *part.values()] if isinstance(part, Mapping) else part
        if left < 0:
            return True
    return False


def make_sendable(text: str) -> str:
    """The text with unpaired surrogates escaped: JSON may contain them, and UTF-8 cannot encode them."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


@contextmanager
def limit_nearest() -> Iterator[None]:
    """Allow `MOST_NEAREST` searches by `find_nearest` within, threads included; a limit around this one holds on."""
    if _searches.get() is not None:
        yield
        return
    token = _searches.set([None] * MOST_NEAREST)
    try:
        yield
    finally:
        _searches.reset(token)


def find_nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, or None if none is close or the request has no search left."""
    left = _searches.get()
    if left is not None:
        if not left:
            return None
        left.pop()
    given = _fold(word)
    folded = {_fold(candidate): candidate for candidate in sorted(set(islice(known, MOST_CANDIDATES)))}
    if given in folded:
        return folded[given]
    likely = list(folded)
    if len(likely) > MOST_COMPARED:
        likely = heapq.nlargest(MOST_COMPARED, likely, key=_Likeness(given).rate)
    matches = difflib.get_close_matches(given, likely, n=1, cutoff=0.6)
    return folded[matches[0]] if matches else None


def cap_problems(problems: Sequence[Problem]) -> Sequence[Problem]:
    """The first `MOST_PROBLEMS`, and one that counts the others."""
    more = len(problems) - MOST_PROBLEMS
    if more <= 0:
        return problems
    return [*problems[:MOST_PROBLEMS], Problem(Code.PROBLEMS_MORE, (), f"and {more} more")]


def _fold(word: str) -> str:
    return word[:MOST_COMPARED_CHARACTERS].lower().replace("-", "_")


class _Likeness:
    """Rates how alike words are to one word, in constant time: by their ends and by their length."""

    def __init__(self, word: str) -> None:
        self._length = len(word)
        self._first, self._start = word[:1], word[:4]
        self._last, self._end = word[-1:], word[-4:]

    def rate(self, other: str) -> int:
        """More is more alike."""
        return (
            4 * ((other[:1] == self._first) + (other[:4] == self._start))
            + 4 * ((other[-1:] == self._last) + (other[-4:] == self._end))
            - abs(len(other) - self._length)
        )


def list_words(words: Iterable[str], *, most: int = 12) -> str:
    """`a, b, c`, cut after `most` words."""
    ordered = list(words)
    shown = ", ".join(ordered[:most])
    return shown if len(ordered) <= most else f"{shown} … ({len(ordered)} in all)"
