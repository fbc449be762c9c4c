"""Reads the dictionaries of a pod as the apiserver's decoder does: the same zero values, and no other leniency.

The readers are those of `spec.kubernetes.object_reader`. The policy here: field names are exact, null is unset (and
empty inside a list or a mapping), and the first problem is raised.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from runyard.spec.kubernetes.object_reader import (
    Reader,
    integer_reader,
    list_reader,
    map_reader,
    read_flag,
    read_object,
    text_reader,
)
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem
from runyard.spec.readers import Findings, describe_type, has_unpaired_surrogates, note_unknown_field


class UnreadablePod(ValueError):
    """A pod has a field that is unknown or of the wrong type; `problem` says where."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))


class _FirstProblem(Findings):
    """Raises the first problem as `UnreadablePod`; holds no state."""

    def add(
        self,
        code: Code,
        path: Path,
        message: str,
        *,
        value: Any = None,
        allowed: str | None = None,
        suggestion: str | None = None,
    ) -> None:
        # An unreadable value may be nested too deeply to be printed: only scalars are shown.
        is_scalar = value is None or isinstance(value, str | bool | int | float)
        shown = value if is_scalar else describe_type(value)
        code = code if code == Code.FIELD_UNKNOWN else Code.FIELD_UNREADABLE
        raise UnreadablePod(Problem(code, path, message, value=shown, allowed=allowed, suggestion=suggestion))


_FINDINGS = _FirstProblem()


@dataclass(frozen=True, slots=True)
class Part:
    """One object inside a pod, and its path. Its readers raise `UnreadablePod`; null reads as unset."""

    values: Mapping[str, Any]
    path: Path = ()

    def find_part(self, name: str) -> "Part | None":
        """The object under `name`, or None where it is unset; an empty object is set."""
        given = self.values.get(name)
        return None if given is None else read_part(given, (*self.path, name))

    def read_parts(self, name: str) -> tuple["Part", ...]:
        """The objects of a list; a null among them is an empty one."""
        return tuple(self._find(name, _read_parts) or ())

    def find_text(self, name: str) -> str | None:
        """The text under `name`, or None where it is unset."""
        text: str | None = self._find(name, _read_text)
        return text

    def read_text(self, name: str) -> str:
        """The text under `name`; unset reads as empty."""
        return self.find_text(name) or ""

    def read_texts(self, name: str) -> tuple[str, ...]:
        """The texts of a list; a null among them is an empty one."""
        return tuple(self._find(name, _read_texts) or ())

    def read_text_map(self, name: str) -> dict[str, str]:
        """A mapping of text to text, as annotations are."""
        return self._find(name, _read_text_map) or {}

    def find_flag(self, name: str) -> bool | None:
        """True, false, or None where it is unset."""
        flag: bool | None = self._find(name, read_flag)
        return flag

    def find_integer(self, name: str, *, bits: int) -> int | None:
        """The signed integer under `name`, or None where it is unset."""
        number: int | None = self._find(name, _INTEGERS[bits])
        return number

    def refuse_unknown(self, known: Set[str]) -> None:
        """Raise for a key that is not in `known`: its effect cannot be judged."""
        for key in self.values:
            if key not in known:
                note_unknown_field(key, sorted(known), _FINDINGS, self.path)

    def _find(self, name: str, read: Reader) -> Any:
        given = self.values.get(name)
        return None if given is None else read(given, _FINDINGS, (*self.path, name))


def read_part(given: Any, path: Path = ()) -> Part:
    """`given` if it is a mapping with text keys."""
    return Part(read_object(given, _FINDINGS, path) or {}, path)


def unreadable(given: Any, path: Path, *, allowed: str) -> UnreadablePod:
    """The error for a value that has the wrong type or is not allowed."""
    shown = given if isinstance(given, str) else describe_type(given)
    return UnreadablePod(Problem(Code.FIELD_UNREADABLE, path, "cannot be read", value=shown, allowed=allowed))


def _check_unicode(text: str) -> str | None:
    return "must be Unicode text without unpaired surrogates" if has_unpaired_surrogates(text) else None


_read_text = text_reader(_check_unicode, Code.FIELD_UNREADABLE)


def _read_text_or_null(given: Any, findings: Findings, path: Path) -> Any:
    return "" if given is None else _read_text(given, findings, path)


def _read_part_or_null(given: Any, findings: Findings, path: Path) -> Any:  # noqa: ARG001 - a reader's signature
    return read_part({} if given is None else given, path)


_read_parts = list_reader(_read_part_or_null, of="objects", most=None)
_read_texts = list_reader(_read_text_or_null, of="text", most=None)
_read_text_map = map_reader(_read_text, _read_text_or_null, of="text to text", most=None)
_INTEGERS: Mapping[int, Reader] = {
    bits: integer_reader(least=-(2 ** (bits - 1)), most=2 ** (bits - 1) - 1) for bits in (32, 64)
}
