"""The form in which everything wrong or doubtful in an input is told: where, what, what is allowed, what was meant."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runyard.spec.problem_codes import Code

Path = tuple[str | int, ...]

VALUE_CHARACTERS = 80
MOST_BITS = 256
"""Python refuses to write integers of thousands of digits, and nobody wants to read them."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding. `message` is a sentence that stands alone; it never holds the value of a secret."""

    code: Code
    """Dotted and stable, for programs: `field.unknown`, `quantity.invalid`, `policy.max`."""
    path: Path
    message: str
    value: Any = None
    """What was given there, or None where that says nothing."""
    allowed: str | None = None
    """What may stand there, in words."""
    suggestion: str | None = None
    """The nearest right thing, ready to be written there."""

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
        """The same finding, in a larger document."""
        return replace(self, path=(*prefix, *self.path))

    def to_dict(self) -> dict[str, Any]:
        """For JSON; what is not known is left out."""
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
    """An input was refused; `problems` names everything that is wrong with it, never only the first."""

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
    """A value as shown in messages: one line, bounded."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return f"a number of {value.bit_length()} bits"
    try:
        text = " ".join(str(value).split())
    except ValueError:  # Python does not write integers of thousands of digits, wherever they stand
        return f"a {type(value).__name__} with a number that is too long to be shown"
    return make_sendable(text if len(text) <= VALUE_CHARACTERS else f"{text[: VALUE_CHARACTERS - 1]}…")


def make_sendable(text: str) -> str:
    """The text with halves of characters written out: JSON may bring them, and nothing can carry them on."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def find_nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, or None: nothing is better than a wild guess."""
    candidates = sorted(set(known))
    folded = {candidate.lower().replace("-", "_"): candidate for candidate in candidates}
    matches = difflib.get_close_matches(word[:100].lower().replace("-", "_"), folded, n=1, cutoff=0.6)
    return folded[matches[0]] if matches else None


def list_words(words: Iterable[str], *, most: int = 12) -> str:
    """`a, b, c` with an end: a list of two hundred profiles helps nobody."""
    ordered = list(words)
    shown = ", ".join(ordered[:most])
    return shown if len(ordered) <= most else f"{shown} … ({len(ordered)} in all)"
