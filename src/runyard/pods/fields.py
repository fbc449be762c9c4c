"""Reading a pod's dictionaries as Kubernetes' decoder does: the same zero values, and no other leniency."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from runyard.spec.problems import Path, Problem, find_nearest


class UnreadablePod(ValueError):
    """A pod holds something that Kubernetes could not read, or that we do not know: where and what is in `problem`."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))


@dataclass(frozen=True, slots=True)
class Part:
    """One object inside a pod, and where it stands. Its readers raise `UnreadablePod`; null reads as unset."""

    values: Mapping[str, Any]
    path: Path = ()

    def find_part(self, name: str) -> "Part | None":
        """The object under `name`, or None where it is unset; an empty object is set."""
        given = self.values.get(name)
        return None if given is None else read_part(given, (*self.path, name))

    def read_parts(self, name: str) -> tuple["Part", ...]:
        """The objects of a list; a null among them is an empty one."""
        return tuple(
            read_part({} if given is None else given, (*self.path, name, index))
            for index, given in enumerate(self._read_list(name))
        )

    def find_text(self, name: str) -> str | None:
        """The text under `name`, or None where it is unset."""
        given = self.values.get(name)
        return None if given is None else read_text(given, (*self.path, name))

    def read_text(self, name: str) -> str:
        """The text under `name`; unset reads as empty."""
        return self.find_text(name) or ""

    def read_texts(self, name: str) -> tuple[str, ...]:
        """The texts of a list; a null among them is an empty one."""
        return tuple(
            "" if given is None else read_text(given, (*self.path, name, index))
            for index, given in enumerate(self._read_list(name))
        )

    def read_text_map(self, name: str) -> dict[str, str]:
        """A mapping of text to text, as annotations are."""
        part = self.find_part(name)
        if part is None:
            return {}
        return {read_text(key, part.path): part.read_text(key) for key in part.values}

    def find_flag(self, name: str) -> bool | None:
        """True, false, or None where it is unset."""
        given = self.values.get(name)
        if given is None or isinstance(given, bool):
            return given
        raise unreadable(given, (*self.path, name), allowed="true or false")

    def find_integer(self, name: str, *, bits: int) -> int | None:
        """The signed integer under `name`, or None where it is unset."""
        given = self.values.get(name)
        if given is None:
            return None
        if type(given) is not int or not -(2 ** (bits - 1)) <= given < 2 ** (bits - 1):
            raise unreadable(given, (*self.path, name), allowed=f"a whole number of {bits} bits")
        return given

    def refuse_unknown(self, known: Set[str]) -> None:
        """Raise where there is a key that is not among `known`: what it would do cannot be judged."""
        for key in self.values:
            if key not in known:
                raise UnreadablePod(
                    Problem(
                        "field.unknown",
                        (*self.path, key),
                        "this field is not known",
                        suggestion=find_nearest(key, known),
                    )
                )

    def _read_list(self, name: str) -> list[Any] | tuple[Any, ...]:
        given = self.values.get(name)
        if given is None:
            return ()
        if not isinstance(given, (list, tuple)):
            raise unreadable(given, (*self.path, name), allowed="a list")
        return given


def read_part(given: Any, path: Path = ()) -> Part:
    """`given` if it is a mapping with text keys."""
    if not isinstance(given, Mapping):
        raise unreadable(given, path, allowed="a mapping")
    for key in given:
        if not isinstance(key, str):
            raise unreadable(key, path, allowed="keys that are text")
    return Part(given, path)


def read_text(given: Any, path: Path) -> str:
    """`given` if it is text that arrives as it was sent: half a surrogate pair does not."""
    if not isinstance(given, str):
        raise unreadable(given, path, allowed="text")
    if any("\ud800" <= character <= "\udfff" for character in given):
        raise unreadable(ascii(given), path, allowed="text in Unicode")
    return given


def unreadable(given: Any, path: Path, *, allowed: str) -> UnreadablePod:
    """The error for a value of the wrong type."""
    problem = Problem("field.unreadable", path, "this cannot be read", value=_describe(given), allowed=allowed)
    return UnreadablePod(problem)


def _describe(given: Any) -> Any:
    """A scalar as it is, anything else by its kind: a hostile value may be too deep or too long to be printed."""
    if isinstance(given, (str, bool, float)) or (isinstance(given, int) and given.bit_length() <= 64):
        return given
    kinds = {dict: "a mapping", list: "a list", tuple: "a list", int: "a number of more than 64 bits"}
    return kinds.get(type(given), type(given).__name__)
