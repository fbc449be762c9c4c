"""Problems of an input: path, message, allowed values and the nearest correct one."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runyard.spec.problem_codes import Code

Path = tuple[str | int, ...]

VALUE_CHARACTERS = 80
MOST_BITS = 256
"""Longer integers are described, not printed: `str` raises ValueError for integers of thousands of digits."""


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
        return "\n".join(map(str, self.problems))


def format_path(path: Sequence[str | int]) -> str:
    """`("volumes", 0, "spec")` as `volumes[0].spec`; keys with dots or slashes in brackets."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part and all(character.isalnum() or character in "_-" for character in part):
            text += f".{part}" if text else part
        else:
            text += f"[{part}]"
    return make_sendable(text)


def shorten(value: object) -> str:
    """A value as shown in messages: one line of bounded length."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return f"a number of {value.bit_length()} bits"
    try:
        text = " ".join(str(value).split())
    except ValueError:  # an integer of thousands of digits somewhere inside
        return f"a {type(value).__name__} with a number too long to show"
    return make_sendable(text if len(text) <= VALUE_CHARACTERS else f"{text[: VALUE_CHARACTERS - 1]}…")


def make_sendable(text: str) -> str:
    """The text with unpaired surrogates escaped: JSON may contain them, and UTF-8 cannot encode them."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def find_nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, or None where none is close."""
    candidates = sorted(set(known))
    folded = {candidate.lower().replace("-", "_"): candidate for candidate in candidates}
    matches = difflib.get_close_matches(word[:100].lower().replace("-", "_"), folded, n=1, cutoff=0.6)
    return folded[matches[0]] if matches else None


def list_words(words: Iterable[str], *, most: int = 12) -> str:
    """`a, b, c`, cut after `most` words."""
    ordered = list(words)
    shown = ", ".join(ordered[:most])
    return shown if len(ordered) <= most else f"{shown} … ({len(ordered)} in all)"
