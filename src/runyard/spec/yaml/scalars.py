"""Values of YAML scalars: the core schema of YAML 1.2, without the surprises of YAML 1.1.

`yes`, `on`, `12:30`, `1_000`, dates, and numbers with leading zeros (`0777`, `007.5`) are read as text. `.inf` and
`.nan` are refused, because JSON has no such numbers.
"""

import math
import re

from runyard.spec.problem_codes import Code

MOST_DIGITS = 100
"""Longer numbers are refused: converting them takes quadratic time."""

TAG_PREFIX = "tag:yaml.org,2002:"

_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
}
_TYPES: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool, "null": type(None)}

Scalar = str | int | float | bool | None


class ScalarError(ValueError):
    """An invalid scalar, with a problem code."""

    def __init__(self, code: Code, message: str) -> None:
        self.code = code
        super().__init__(message)


def read_scalar(text: str, *, tag: str | None, is_plain: bool) -> Scalar:
    """The value of a scalar. Quoted and block scalars are text; a tag overrides that."""
    text = join_surrogates(text)
    if tag is None:
        return resolve_plain(text) if is_plain else text
    if tag == "!":
        return text
    name = tag.removeprefix(TAG_PREFIX)
    if tag == name or name not in _TYPES:
        raise ScalarError(Code.YAML_TAG, f"unknown tag `{show_tag(tag)}`; plain values need no tag")
    if name == "str":
        return text
    value = resolve_plain(text)
    if name == "float" and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not _TYPES[name]:
        raise ScalarError(Code.YAML_TAG, f"the value does not have the type of its tag `{show_tag(tag)}`")
    return value


def resolve_plain(text: str) -> Scalar:
    """The value of an unquoted scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "0123456789+-.":
        return text
    if _NOT_FINITE.fullmatch(text):
        raise ScalarError(Code.YAML_NUMBER, f"`{text}` is not a valid number; quote it if it is text")
    is_integer = _INTEGER.fullmatch(text) is not None
    if not is_integer and not _FLOAT.fullmatch(text):
        return text
    if len(text) > MOST_DIGITS:
        raise ScalarError(Code.YAML_NUMBER, f"a number of {len(text)} characters is too long; quote it if it is text")
    if is_integer:
        return int(text, 10) if text[:2] not in ("0o", "0x") else int(text, 0)
    number = float(text)
    if math.isinf(number):
        raise ScalarError(Code.YAML_NUMBER, "the number is too large; quote it if it is text")
    return number


def join_surrogates(text: str) -> str:
    """Join JSON's surrogate pairs (`\\ud83d\\ude00`) into characters; an unpaired surrogate is refused."""
    if not _SURROGATE.search(text):
        return text
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise ScalarError(Code.YAML_CHARACTER, "the text has an unpaired surrogate") from None


def show_tag(tag: str) -> str:
    """A tag as it is usually written."""
    return f"!!{tag.removeprefix(TAG_PREFIX)}"[:60] if tag.startswith(TAG_PREFIX) else tag[:60]
