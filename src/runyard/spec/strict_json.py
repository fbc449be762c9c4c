"""A strict JSON reader: no duplicate keys, no NaN or Infinity, no unpaired surrogates, and a count before it parses."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

_BLOCK_BYTES = 1 << 18
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")


class InvalidJson(ValueError):
    """The text is not strict JSON; the message says what is wrong, and where if the syntax is."""


def parse_json(text: str, *, most_digits: int | None = None) -> Any:
    """The value of the text; raises `InvalidJson`. An integer may have `most_digits` characters."""

    def read_integer(digits: str) -> int:
        if most_digits is not None and len(digits) > most_digits:
            raise InvalidJson(f"a number has {len(digits)} digits")
        return int(digits)

    try:
        document = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_int=read_integer,
            parse_float=_read_float,
            object_pairs_hook=_read_pairs,
        )
    except json.JSONDecodeError as error:
        raise InvalidJson(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise InvalidJson("it is nested too deeply") from None
    except InvalidJson:
        raise
    except ValueError as error:
        # Python bounds the digits of an integer.
        raise InvalidJson(str(error)) from None
    # Only an escape brings one: decoded UTF-8 has none.
    if _SURROGATE_ESCAPE.search(text) and any(map(_SURROGATE.search, iter_texts(document))):
        raise InvalidJson("a text has an unpaired surrogate, half a character")
    return document


def count_values(content: bytes, *, most: int) -> int:
    """How many values a JSON text has, a key and its value counting as one, an empty list as two; stops beyond `most`.

    Linear and without parsing, so that the cost of a text is known before it is paid. Commas and brackets in strings
    are not counted. Goes block by block, so that no call holds the interpreter lock (GIL) for long.
    """
    count, start, is_inside = 1, 0, 0
    while start < len(content) and count <= most:
        block = content[start : start + _BLOCK_BYTES]
        if (len(block) - len(block.rstrip(b"\\"))) % 2:
            block = content[start : start + _BLOCK_BYTES + 1]  # do not cut an escape in two
        start += len(block)
        if b"\\" in block:
            block = block.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = block.split(b'"')
        outside = b"".join(parts[is_inside::2])
        count += sum(map(outside.count, (b",", b"[", b"{")))
        is_inside ^= (len(parts) - 1) & 1
    return count


def iter_texts(document: Any) -> Iterator[str]:
    """Every text in a document, keys included."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list):
            waiting += value


def _read_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise InvalidJson(f"the key `{twice[:80]}` is there twice")
    return document


def _refuse_constant(text: str) -> Any:
    raise InvalidJson(f"{text} is not a number in JSON")


def _read_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise InvalidJson(f"the number {text[:40]} is too large")
    return number
