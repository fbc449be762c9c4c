"""Reads objects of Kubernetes' own schema, in camelCase or snake_case, into camelCase dictionaries.

A reader takes what was given, the findings to note problems in, and the path in the user's own spelling; it returns the
value, or None where it noted a problem. Types are as strict as the apiserver's: a number is not text, `5.0` is not an
integer. Stricter on purpose: an empty item in a list is refused (the apiserver reads "" or {}), and sizes are bounded.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from runyard.spec.problems import Path, find_nearest, list_words
from runyard.spec.readers import Findings, describe_type, to_snake_case

MOST_ENTRIES = 100

Reader = Callable[[Any, Findings, Path], Any]


@dataclass(frozen=True, slots=True)
class Fields:
    """What an object was found to hold: good values by their camelCase names, and how each name was spelt."""

    values: Mapping[str, Any]
    spelling: Mapping[str, str]
    path: Path
    is_snake: bool

    def at(self, name: str) -> Path:
        """The path of a field, as the user spells it or would."""
        return (*self.path, self.spell(name))

    def spell(self, name: str) -> str:
        """The name of a field in the spelling that the object uses."""
        return self.spelling.get(name) or (to_snake_case(name) if self.is_snake else name)

    def is_given(self, name: str) -> bool:
        """Whether something stands there, good or not; null does not count."""
        return name in self.spelling


def read_fields(given: Any, findings: Findings, path: Path, readers: Mapping[str, Reader], *, of: str) -> Fields | None:
    """Every field by its reader; unknown names, and two spellings of one name, are problems. Nulls are left out."""
    if not isinstance(given, Mapping):
        findings.add("type.mapping", path, f"must be a mapping ({of}), not {describe_type(given)}", value=given)
        return None
    is_snake = any("_" in str(key) for key in given)
    names = {spelling: name for name in readers for spelling in (name, to_snake_case(name))}
    values: dict[str, Any] = {}
    seen: dict[str, str] = {}
    spelling: dict[str, str] = {}
    for key, value in list(given.items())[:MOST_ENTRIES]:
        name = names.get(key)
        if name is None:
            _note_unknown(key, findings, path, names=[to_snake_case(name) if is_snake else name for name in readers])
        elif name in seen:
            findings.add("field.twice", (*path, key), f"`{key}` and `{seen[name]}` are the same field")
        else:
            seen[name] = key
            if value is not None:
                spelling[name] = key
                values[name] = readers[name](value, findings, (*path, key))
    good = {name: value for name, value in values.items() if value is not None}
    return Fields(good, spelling, path, is_snake)


def require(fields: Fields, findings: Findings, *names: str, of: str) -> None:
    """Note each field that is missing."""
    for name in names:
        if not fields.is_given(name):
            findings.add("field.missing", fields.at(name), f"{of} needs `{fields.spell(name)}`")


def read_text(given: Any, findings: Findings, path: Path) -> str | None:
    """Any text."""
    if isinstance(given, str):
        return given
    suggestion = None
    if isinstance(given, (bool, int, float)):
        suggestion = f'"{str(given).lower()}"'
    findings.add("type.text", path, f"must be text, not {describe_type(given)}", value=given, suggestion=suggestion)
    return None


def text_reader(check: Callable[[str], str | None], code: str) -> Reader:
    """A reader of text that passes `check`."""

    def read(given: Any, findings: Findings, path: Path) -> str | None:
        text = read_text(given, findings, path)
        if text is not None and (error := check(text)):
            findings.add(code, path, error, value=text)
            return None
        return text

    return read


def integer_reader(*, least: int, most: int) -> Reader:
    """A reader of whole numbers within bounds."""
    allowed = f"a whole number from {least} to {most}"

    def read(given: Any, findings: Findings, path: Path) -> int | None:
        if isinstance(given, bool) or not isinstance(given, int):
            is_digits = isinstance(given, str) and given.isascii() and given.isdigit()
            suggestion = given if is_digits or (isinstance(given, float) and given.is_integer()) else None
            shown = str(int(suggestion)) if suggestion is not None and len(str(suggestion)) < len(str(2**63)) else None
            kind = "one with a fraction or a point" if isinstance(given, float) else describe_type(given)
            message = f"must be a whole number, not {kind}"
            findings.add("type.integer", path, message, value=given, allowed=allowed, suggestion=shown)
            return None
        if not least <= given <= most:
            findings.add("number.range", path, "is out of range", value=given, allowed=allowed)
            return None
        return given

    return read


def option_reader(options: Iterable[str], *, what: str, empty: bool = False) -> Reader:
    """A reader of one word of several; `empty` allows "" for the default."""
    known = tuple(options)

    def read(given: Any, findings: Findings, path: Path) -> str | None:
        text = read_text(given, findings, path)
        if text is None or text in known or (empty and not text):
            return text
        folded = {option.lower(): option for option in known}
        nearest = folded.get(text.lower()) or find_nearest(text, known)
        allowed = ", ".join(known)
        findings.add("value.option", path, f"is not {what}", value=text, allowed=allowed, suggestion=nearest)
        return None

    return read


def list_reader(read_item: Reader, *, of: str) -> Reader:
    """A reader of lists; one refused item refuses the list."""

    def read(given: Any, findings: Findings, path: Path) -> list[Any] | None:
        if not isinstance(given, (list, tuple)):
            findings.add("type.list", path, f"must be a list of {of}, not {describe_type(given)}", value=given)
            return None
        if len(given) > MOST_ENTRIES:
            findings.add("size.entries", path, f"has {len(given)} entries", allowed=f"at most {MOST_ENTRIES}")
            return None
        before = len(findings.problems)
        items = [read_item(item, findings, (*path, index)) for index, item in enumerate(given)]
        return items if len(findings.problems) == before else None

    return read


def _note_unknown(key: Any, findings: Findings, path: Path, *, names: list[str]) -> None:
    if not isinstance(key, str):
        findings.add("type.key", path, f"has a key that is {describe_type(key)}", value=key, allowed="text keys")
        return
    nearest = find_nearest(key, names)
    message = f"`{key[:60]}` is not known here"
    findings.add("field.unknown", (*path, key), message, allowed=list_words(names), suggestion=nearest)
