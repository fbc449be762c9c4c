"""Building blocks of readers: functions that turn one field, in any of its forms, into a value.

A reader takes the input and returns the value, or raises `Refused` with every problem; paths are relative to the field.
Readers are hand-written because most fields have several forms and a problem must carry the path that the user wrote.
Pydantic calls them (`read_by`), owns the models around them, and publishes the JSON Schema.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem, Refused, find_nearest, list_words, shorten

T = TypeVar("T")

_INNER_CAPITAL = re.compile("(?<=[a-z0-9])[A-Z]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

MOST_ENTRIES = 256
"""The bound of every list and mapping of a request; a pod with more entries is a mistake or an attack."""


class Findings:
    """Collects the problems of an input, so that all of them are reported at once."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

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
        """Add one problem."""
        self.problems.append(Problem(code, path, message, value=value, allowed=allowed, suggestion=suggestion))

    def read(self, reader: Callable[[Any], T], given: Any, *path: str | int) -> T | None:
        """The reader's value, or None where it raised `Refused`: its problems are added under `path`."""
        try:
            return reader(given)
        except Refused as refused:
            self.problems += [problem.under(*path) for problem in refused.problems]
            return None

    def finish(self) -> None:
        """Raise `Refused` if there are problems."""
        if self.problems:
            raise Refused(self.problems)


@dataclass(frozen=True, slots=True, repr=False)
class Carried:
    """Problems inside a pydantic error. Pydantic prints the context of its errors; this repr shows no values."""

    problems: tuple[Problem, ...]

    def __repr__(self) -> str:
        return "problems"


def read_by(reader: Callable[[Any], Any], schema: Mapping[str, Any]) -> tuple[PlainValidator, WithJsonSchema]:
    """A reader as pydantic metadata; null means unset."""

    def validate(given: Any) -> Any:
        if given is None:
            return None
        try:
            return reader(given)
        except Refused as refused:
            raise PydanticCustomError("refused", "refused", {"problems": Carried(refused.problems)}) from None

    return PlainValidator(validate), WithJsonSchema(dict(schema))


def refuse(code: Code, message: str, **details: Any) -> Refused:
    """A `Refused` with one problem, of the field as a whole unless `path` is given."""
    path = details.pop("path", ())
    return Refused([Problem(code, path, message, **details)])


_TYPE_NAMES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (type(None), "null"),
    (bool, "a boolean"),
    (str, "text"),
    ((int, float), "a number"),
    (Mapping, "a mapping"),
    ((list, tuple), "a list"),
)


def describe_type(given: Any) -> str:
    """The type of a value, in the words of YAML."""
    names = (name for kinds, name in _TYPE_NAMES if isinstance(given, kinds))
    return next(names, type(given).__name__)


def describe_wrong_type(given: Any, expected: str) -> str:
    """The message for a value of the wrong type."""
    return f"must be {expected}, not {describe_type(given)}"


def expect_mapping(given: Any, *, of: str) -> Mapping[str, Any]:
    """`given` if it is a mapping with text keys, bounded."""
    if not isinstance(given, Mapping):
        raise refuse(Code.TYPE_MAPPING, describe_wrong_type(given, f"a mapping of {of}"), value=given)
    if len(given) > MOST_ENTRIES:
        raise refuse(Code.SIZE_ENTRIES, f"has {len(given)} entries", allowed=f"at most {MOST_ENTRIES}")
    if strange := [key for key in given if not isinstance(key, str)]:
        raise refuse(
            Code.TYPE_KEY, f"has a key that is {describe_type(strange[0])}", value=strange[0], allowed="text keys"
        )
    return given


def expect_list(given: Any, *, of: str) -> list[Any]:
    """`given` if it is a list, bounded."""
    if not isinstance(given, (list, tuple)):
        raise refuse(Code.TYPE_LIST, describe_wrong_type(given, f"a list of {of}"), value=given)
    if len(given) > MOST_ENTRIES:
        raise refuse(Code.SIZE_ENTRIES, f"has {len(given)} entries", allowed=f"at most {MOST_ENTRIES}")
    return list(given)


def read_each(reader: Callable[[Any], T], given: Any, *, of: str) -> tuple[T, ...]:
    """Every entry of a list by one reader; raises `Refused` with the problems of all of them."""
    findings = Findings()
    read = [findings.read(reader, entry, index) for index, entry in enumerate(expect_list(given, of=of))]
    findings.finish()
    return tuple(entry for entry in read if entry is not None)


def expect_text(given: Any, *, what: str, most: int = 1024) -> str:
    """`given` if it is text that is valid in a Kubernetes object: not empty, bounded, without control characters."""
    if not isinstance(given, str):
        raise refuse(Code.TYPE_TEXT, f"{what} {describe_wrong_type(given, 'text')}", value=given)
    if not given:
        raise refuse(Code.TEXT_EMPTY, f"{what} must not be empty")
    if len(given) > most:
        raise refuse(Code.TEXT_LONG, f"{what} has {len(given)} characters", allowed=f"at most {most}")
    if has_control_characters(given):
        raise refuse(Code.TEXT_CONTROL, f"{what} has control characters or unpaired surrogates", value=ascii(given))
    return given


def has_control_characters(text: str) -> bool:
    """Whether the text has control characters (C0, DEL, C1) or unpaired surrogates."""
    return _CONTROL_CHARACTER.search(text) is not None


def has_unpaired_surrogates(text: str) -> bool:
    """Whether the text has half of a surrogate pair (U+D800 to U+DFFF), which cannot be encoded as UTF-8."""
    return not text.isascii() and _SURROGATE.search(text) is not None


def expect_integer(given: Any, *, what: str, at_least: int, at_most: int) -> int:
    """An integer, or text that is one; within bounds."""
    bounds = f"a whole number from {at_least} to {at_most}"
    if isinstance(given, str) and re.fullmatch(r"[+-]?[0-9]{1,20}", given):
        number = int(given)
    elif isinstance(given, int) and not isinstance(given, bool):
        number = given
    elif isinstance(given, float) and given.is_integer() and abs(given) < 2**53:
        number = int(given)
    else:
        raise refuse(Code.NUMBER_INVALID, f"{what} must be a whole number", value=given, allowed=bounds)
    if not at_least <= number <= at_most:
        raise refuse(Code.NUMBER_RANGE, f"{what} is out of range", value=given, allowed=bounds)
    return number


def expect_option(given: Any, *, what: str, options: Iterable[str], prefix: str = "") -> str:
    """One of `options`, case-sensitive; the nearest option is proposed. `what` is a noun without an article."""
    known = list(options)
    if isinstance(given, str) and given in known:
        return given
    folded = {option.lower(): option for option in known}
    nearest = folded.get(shorten(given).lower()) or find_nearest(shorten(given), known)
    allowed = ", ".join(known)
    raise refuse(Code.VALUE_OPTION, f"{prefix}unknown {what}", value=given, allowed=allowed, suggestion=nearest)


def expect_keys(
    given: Mapping[str, Any],
    known: Iterable[str],
    findings: Findings,
    *path: str | int,
    spelling: Mapping[str, str] | None = None,
) -> None:
    """Report every unknown key, in the spelling of the input."""
    names = list(known)
    for key in given:
        if key not in names:
            note_unknown_field(key, names, findings, path, written=key if spelling is None else spelling[key])


def note_unknown_field(
    key: str, known: Iterable[str], findings: Findings, path: Path, *, written: str | None = None
) -> None:
    """Report an unknown field with the nearest known one; `written` is its spelling where that differs from `key`."""
    names = list(known)
    shown = key if written is None else written
    findings.add(
        Code.FIELD_UNKNOWN,
        (*path, shown),
        f"unknown field `{shown[:60]}`",
        allowed=list_words(names, most=20),
        suggestion=find_nearest(key, names),
    )


def fold_keys(given: Mapping[str, Any], findings: Findings, *path: str | int) -> tuple[dict[str, Any], dict[str, str]]:
    """The mapping with snake_case keys, and the original spelling of each; two spellings of one key are a problem."""
    folded: dict[str, Any] = {}
    spelling: dict[str, str] = {}
    for key, value in given.items():
        name = to_snake_case(key)
        if name in folded:
            findings.add(Code.FIELD_TWICE, (*path, key), f"`{key}` and `{spelling[name]}` are the same field")
            continue
        folded[name] = value
        spelling[name] = key
    return folded, spelling


def to_snake_case(name: str) -> str:
    """`storageClass` as `storage_class`; snake_case is unchanged."""
    if name.islower():
        return name
    return _INNER_CAPITAL.sub(lambda match: f"_{match.group().lower()}", name[:100]) + name[100:]
