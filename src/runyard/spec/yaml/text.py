"""Checks before YAML is parsed: size, UTF-8, allowed characters. Reads JSON directly."""

import re
from typing import Any

from runyard.spec.figures import format_bytes
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused
from runyard.spec.strict_json import InvalidJson, parse_json
from runyard.spec.yaml.scalars import MOST_DIGITS
from runyard.spec.yaml.tree_builder import MOST_DEPTH, MOST_NODES

_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def check_text(given: str | bytes, *, most_bytes: int) -> str:
    """The decoded text; raises `Refused` where it is too large, not UTF-8 or has forbidden characters."""
    data = given if isinstance(given, bytes) else given.encode("utf-8", "surrogatepass")
    if len(data) > most_bytes:
        raise _refuse(
            Code.YAML_TOO_LARGE,
            f"the text has {format_bytes(len(data))}; allowed: at most {format_bytes(most_bytes)}",
        )
    if data.startswith(_MARKS):
        raise _refuse(
            Code.YAML_ENCODING,
            "line 1, column 1: the text begins with a byte order mark; save it as UTF-8 without one",
        )
    try:
        text = data.decode("utf-8", "strict" if isinstance(given, bytes) else "surrogatepass")
    except UnicodeDecodeError as error:
        line, column = data.count(b"\n", 0, error.start) + 1, error.start - data.rfind(b"\n", 0, error.start)
        raise _refuse(Code.YAML_ENCODING, f"line {line}, byte {column}: the text is not UTF-8") from None
    if match := _FORBIDDEN.search(text):
        index = match.start()
        line, column = text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)
        character = f"U+{ord(match.group()):04X}"
        raise _refuse(Code.YAML_CHARACTER, f"line {line}, column {column}: the character {character} is not allowed")
    return text


def find_json(text: str) -> dict[str, Any] | list[Any] | None:
    """The value if the text is valid JSON, else None: the YAML reader reports the positions of errors."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        data: dict[str, Any] | list[Any] = parse_json(text, most_digits=MOST_DIGITS)
    except InvalidJson:
        return None
    return data if _measure_depth(data) <= MOST_DEPTH else None


def _measure_depth(data: Any) -> int:
    """The number of nested levels; raises `Refused` for too many values."""
    level, count, depth = [data], 0, 0
    while level:
        count += len(level)
        if count > MOST_NODES:
            raise _refuse(Code.YAML_TOO_MANY_VALUES, f"the text has more than {MOST_NODES:,} values")
        collections = [value for value in level if isinstance(value, (dict, list))]
        level = [child for value in collections for child in _list_children(value)]
        depth += bool(collections)
    return depth


def _list_children(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


def _refuse(code: Code, message: str) -> Refused:
    return Refused([Problem(code, (), message)])
