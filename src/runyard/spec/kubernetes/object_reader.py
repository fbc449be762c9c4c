"""The readers of Kubernetes-shaped fields: mappings, lists, text, integers, booleans, options.

A reader takes a value, the `Findings` to report to, and the path in the spelling of the input. It returns the value, or
None after it reported a problem. Types are as strict as the apiserver's: a number is not text, `5.0` is not an integer.

Three callers share these readers and add only their own policy:
- `spec.kubernetes` reads what users write: camelCase or snake_case, null means unset, every problem is collected. It is
  stricter than the apiserver on purpose: null list items are refused (the apiserver reads "" or {}), sizes are bounded.
- `pods.fields` reads pods as the apiserver's decoder does: exact names, zero values, the first problem is raised.
- `domain.admission.shapes` checks the objects that are sent: exact names, closed shapes, its own codes.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from runyard.spec.problem_codes import Code
from runyard.spec.problems import MOST_BITS, Path, find_nearest
from runyard.spec.readers import Findings, describe_type, describe_wrong_type, note_unknown_field, to_snake_case

MOST_ENTRIES = 100

Reader = Callable[[Any, Findings, Path], Any]


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one object: valid values by their camelCase names, and the spelling of each name."""

    values: Mapping[str, Any]
    spelling: Mapping[str, str]
    path: Path
    is_snake: bool

    def at(self, name: str) -> Path:
        """The path of a field, in the spelling of the input."""
        return (*self.path, self.spell(name))

    def spell(self, name: str) -> str:
        """The name of a field in the spelling that the object uses."""
        return self.spelling.get(name) or (to_snake_case(name) if self.is_snake else name)

    def is_given(self, name: str) -> bool:
        """Whether the field has a value, valid or not; null does not count."""
        return name in self.spelling


def read_fields(
    given: Any,
    findings: Findings,
    path: Path,
    readers: Mapping[str, Reader],
    *,
    of: str,
    accepts_snake_case: bool = True,
) -> Fields | None:
    """Read every field with its reader; unknown fields, and two spellings of one, are problems. Nulls are left out."""
    mapping = _read_mapping(given, findings, path, expected=f"a mapping ({of})")
    if mapping is None:
        return None
    is_snake = accepts_snake_case and any("_" in str(key) for key in mapping)
    snake_names = {to_snake_case(name): name for name in readers} if is_snake else {}
    values: dict[str, Any] = {}
    seen: dict[str, str] = {}
    spelling: dict[str, str] = {}
    for key, value in list(mapping.items())[:MOST_ENTRIES]:
        if not isinstance(key, str):
            _note_key_type(key, findings, path)
            continue
        name = key if key in readers else snake_names.get(key)
        if name is None:
            known = [to_snake_case(name) for name in readers] if is_snake else readers
            note_unknown_field(key, known, findings, path)
        elif name in seen:
            findings.add(Code.FIELD_TWICE, (*path, key), f"`{key}` and `{seen[name]}` are the same field")
        else:
            seen[name] = key
            if value is not None:
                spelling[name] = key
                values[name] = readers[name](value, findings, (*path, key))
    valid = {name: value for name, value in values.items() if value is not None}
    return Fields(valid, spelling, path, is_snake)


def require(fields: Fields, findings: Findings, *names: str, of: str) -> None:
    """Report each field that is missing."""
    for name in names:
        if not fields.is_given(name):
            findings.add(Code.FIELD_MISSING, fields.at(name), f"{of} needs `{fields.spell(name)}`")


def read_object(given: Any, findings: Findings, path: Path) -> Mapping[str, Any] | None:
    """Any mapping with text keys; its values are not checked."""
    mapping = _read_mapping(given, findings, path, expected="a mapping")
    for key in mapping or ():
        if not isinstance(key, str):
            _note_key_type(key, findings, path)
            return None
    return mapping


def read_text(given: Any, findings: Findings, path: Path) -> str | None:
    """Any text."""
    if isinstance(given, str):
        return given
    is_short = isinstance(given, bool | float) or (isinstance(given, int) and given.bit_length() <= MOST_BITS)
    suggestion = f'"{str(given).lower()}"' if is_short else None
    findings.add(Code.TYPE_TEXT, path, describe_wrong_type(given, "text"), value=given, suggestion=suggestion)
    return None


def read_flag(given: Any, findings: Findings, path: Path) -> bool | None:
    """True or false."""
    if isinstance(given, bool):
        return given
    findings.add(Code.TYPE_BOOLEAN, path, describe_wrong_type(given, "true or false"), value=given)
    return None


def text_reader(check: Callable[[str], str | None], code: Code) -> Reader:
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
            kind = "a number with a decimal point" if isinstance(given, float) else describe_type(given)
            message = f"must be a whole number, not {kind}"
            findings.add(Code.TYPE_INTEGER, path, message, value=given, allowed=allowed, suggestion=shown)
            return None
        if not least <= given <= most:
            findings.add(Code.NUMBER_RANGE, path, "is out of range", value=given, allowed=allowed)
            return None
        return given

    return read


def option_reader(options: Iterable[str], *, what: str, empty: bool = False) -> Reader:
    """A reader of one of several words; `empty` allows "" for the default."""
    known = tuple(options)

    def read(given: Any, findings: Findings, path: Path) -> str | None:
        text = read_text(given, findings, path)
        if text is None or text in known or (empty and not text):
            return text
        folded = {option.lower(): option for option in known}
        nearest = folded.get(text.lower()) or find_nearest(text, known)
        allowed = ", ".join(known)
        findings.add(Code.VALUE_OPTION, path, f"is not {what}", value=text, allowed=allowed, suggestion=nearest)
        return None

    return read


def list_reader(read_item: Reader, *, of: str, least: int = 0, most: int | None = MOST_ENTRIES) -> Reader:
    """A reader of lists; one invalid item makes the list invalid. `most=None` is for lists bounded elsewhere."""

    def read(given: Any, findings: Findings, path: Path) -> list[Any] | None:
        if not isinstance(given, (list, tuple)):
            findings.add(Code.TYPE_LIST, path, describe_wrong_type(given, f"a list of {of}"), value=given)
            return None
        if len(given) < least or (most is not None and len(given) > most):
            allowed = f"at most {most}" if not least else f"{least} to {most}" if least != most else f"{most}"
            findings.add(Code.SIZE_ENTRIES, path, f"has {len(given)} entries", allowed=allowed)
            return None
        before = len(findings.problems)
        items = [read_item(item, findings, (*path, index)) for index, item in enumerate(given)]
        return items if len(findings.problems) == before else None

    return read


def map_reader(read_key: Reader, read_value: Reader, *, of: str, most: int | None = MOST_ENTRIES) -> Reader:
    """A reader of mappings with free keys, such as labels; one invalid entry makes the mapping invalid."""

    def read(given: Any, findings: Findings, path: Path) -> dict[str, Any] | None:
        mapping = _read_mapping(given, findings, path, expected=f"a mapping of {of}")
        if mapping is None:
            return None
        if most is not None and len(mapping) > most:
            findings.add(Code.SIZE_ENTRIES, path, f"has {len(mapping)} entries", allowed=f"at most {most}")
            return None
        before = len(findings.problems)
        entries: dict[str, Any] = {}
        for key, value in mapping.items():
            where = (*path, key) if isinstance(key, str) else path
            if read_key(key, findings, where) is not None or isinstance(key, str):
                entries[key] = read_value(value, findings, where)
        return entries if len(findings.problems) == before else None

    return read


def _read_mapping(given: Any, findings: Findings, path: Path, *, expected: str) -> Mapping[Any, Any] | None:
    if isinstance(given, Mapping):
        return given
    findings.add(Code.TYPE_MAPPING, path, describe_wrong_type(given, expected), value=given)
    return None


def _note_key_type(key: Any, findings: Findings, path: Path) -> None:
    findings.add(Code.TYPE_KEY, path, f"has a key that is {describe_type(key)}", value=key, allowed="text keys")
