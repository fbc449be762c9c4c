"""Values that are expensive to read, as JSON text: many, deep, long, nearly right."""

import random
from collections.abc import Callable, Mapping
from itertools import count as numbers

Shape = Callable[[int, int, random.Random], bytes]
"""Takes the number of entries that are wanted, the bytes that the text may have, and a source of chance."""

WORDS = ("resources", "secrets", "volumes", "node_selector", "tolerations", "parameters", "schedule", "states", "image")
"""Names of real fields, to miss by a letter."""
DEPTH = 55
"""Levels of nesting: just below the bound of an entity, and far below that of the parser."""


def _fill(entry: Callable[[int], str], count: int, most_bytes: int, *, around: str = "[]") -> bytes:
    """As many entries as are wanted and fit."""
    parts, size = [], 2
    for number in numbers():
        text = entry(number)
        size += len(text) + 1
        if number >= count or size > most_bytes:
            break
        parts.append(text)
    return f"{around[0]}{','.join(parts)}{around[1]}".encode()


def _repeat(text: str, count: int, most_bytes: int) -> bytes:
    """The same entry, as many times as are wanted and fit: much faster than `_fill`."""
    wanted = min(count, (most_bytes - 2) // (len(text) + 1))
    return f"[{','.join([text] * wanted)}]".encode()


def _miss(word: str, number: int) -> str:
    """A word that is nearly another."""
    return f"{word[: number % len(word)]}{number}{word[number % len(word) :]}"


def empty_mappings(count: int, most_bytes: int, _: random.Random) -> bytes:
    """`[{},{},…]`."""
    return _repeat("{}", count, most_bytes)


def empty_lists(count: int, most_bytes: int, _: random.Random) -> bytes:
    """`[[],[],…]`: no hook of the parser is called for them."""
    return _repeat("[]", count, most_bytes)


def empty_texts(count: int, most_bytes: int, _: random.Random) -> bytes:
    """`["","",…]`."""
    return _repeat('""', count, most_bytes)


def small_numbers(count: int, most_bytes: int, _: random.Random) -> bytes:
    """`[0,0,…]`."""
    return _repeat("0", count, most_bytes)


def small_mappings(count: int, most_bytes: int, _: random.Random) -> bytes:
    """Entries that look right: `[{"name":"a","type":"b","dest":"c"},…]`."""
    return _repeat('{"name":"a","type":"b","dest":"c"}', count, most_bytes)


def distinct_texts(count: int, most_bytes: int, _: random.Random) -> bytes:
    """Texts that are nearly right: `["WRONG0","WRONG1",…]`."""
    return _fill(lambda number: f'"COMPLETE{number}"', count, most_bytes)


def near_names(count: int, most_bytes: int, chance: random.Random) -> bytes:
    """Names that resemble those of the project's secrets."""
    return _fill(lambda number: f'"secret-nummer-{chance.randrange(10_000)}-{number}"', count, most_bytes)


def long_near_names(count: int, most_bytes: int, _: random.Random) -> bytes:
    """Long names that resemble those of the project's secrets."""
    return _fill(lambda number: f'"secret-number-{"0123456789" * 20}-{number}"', count, most_bytes)


def near_keys(count: int, most_bytes: int, _: random.Random) -> bytes:
    """A mapping whose keys are nearly those of fields."""
    return _fill(lambda number: f'"{_miss(WORDS[number % len(WORDS)], number)}":1', count, most_bytes, around="{}")


def long_keys(count: int, most_bytes: int, _: random.Random) -> bytes:
    """A mapping of keys with a thousand characters."""
    return _fill(lambda number: f'"{"resources" * 110}{number}":{{}}', count, most_bytes, around="{}")


def nulls(count: int, most_bytes: int, _: random.Random) -> bytes:
    """A mapping of nulls, which are dropped."""
    return _fill(lambda number: f'"k{number}":null', count, most_bytes, around="{}")


def texts_by_name(count: int, most_bytes: int, _: random.Random) -> bytes:
    """A mapping of texts, such as variables."""
    return _fill(lambda number: f'"NAME_{number}":"value"', count, most_bytes, around="{}")


def deep_lists(count: int, most_bytes: int, _: random.Random) -> bytes:
    """Many nested lists."""
    return _repeat("[" * DEPTH + "]" * DEPTH, count, most_bytes)


def deep_mappings(count: int, most_bytes: int, _: random.Random) -> bytes:
    """Many nested mappings."""
    return _repeat('{"a":' * DEPTH + "1" + "}" * DEPTH, count, most_bytes)


def one_deep_list(count: int, most_bytes: int, _: random.Random) -> bytes:
    """One list, as deep as the bytes allow."""
    return b"[" * (most_bytes // 2) + b"]" * (most_bytes // 2)


def one_long_text(count: int, most_bytes: int, _: random.Random) -> bytes:
    """One text, as code in base64 is."""
    return b'"' + b"QUJD" * ((most_bytes - 8) // 4) + b'"'


def one_text_of_escapes(count: int, most_bytes: int, _: random.Random) -> bytes:
    """One text of escapes, each of which is six bytes."""
    return b'"' + rb"\u00e4" * ((most_bytes - 8) // 6) + b'"'


def one_text_of_surrogates(count: int, most_bytes: int, _: random.Random) -> bytes:
    """One text of halves of characters."""
    return b'"' + rb"\ud83d" * ((most_bytes - 8) // 6) + b'"'


def one_text_of_quotes(count: int, most_bytes: int, _: random.Random) -> bytes:
    """One text of escaped quotes and commas, as source code has them."""
    return b'"' + b'\\"a\\",[{' * ((most_bytes - 8) // 9) + b'"'


def braces(count: int, most_bytes: int, _: random.Random) -> bytes:
    """A template that never ends."""
    return b'"' + b"{{ " * ((most_bytes - 8) // 3) + b'"'


def spaced_braces(count: int, most_bytes: int, _: random.Random) -> bytes:
    """A template of one brace and many spaces."""
    return b'"{{' + b" " * min(count, most_bytes - 8) + b'"'


def stars(count: int, most_bytes: int, _: random.Random) -> bytes:
    """A pattern on which a matcher goes back again and again."""
    return b'"store://demo/run/' + b"a*" * min(count, (most_bytes - 32) // 2) + b'b"'


def long_integer(count: int, most_bytes: int, _: random.Random) -> bytes:
    """One number of millions of digits."""
    return b"9" * (most_bytes - 8)


def integers_of_4000_digits(count: int, most_bytes: int, _: random.Random) -> bytes:
    """The longest numbers that Python converts, which takes quadratic time."""
    return _repeat("9" * 4000, count, most_bytes)


def long_floats(count: int, most_bytes: int, _: random.Random) -> bytes:
    """Fractions of thousands of digits."""
    return _repeat(f"0.{'3' * 4000}e-5", count, most_bytes)


def same_keys(count: int, most_bytes: int, _: random.Random) -> bytes:
    """A mapping whose keys are all the same."""
    wanted = min(count, (most_bytes - 2) // 6)
    return b"{" + b",".join([b'"a":1'] * wanted) + b"}"


def large_texts(count: int, most_bytes: int, _: random.Random) -> bytes:
    """A list of few large texts, as many entries as readers allow."""
    wanted = min(count, 250)
    return _repeat(f'"{"x" * max(1, most_bytes // wanted - 8)}"', wanted, most_bytes)


SHAPES: Mapping[str, Shape] = {
    shape.__name__: shape
    for shape in (
        empty_mappings,
        empty_lists,
        empty_texts,
        small_numbers,
        small_mappings,
        distinct_texts,
        near_names,
        long_near_names,
        near_keys,
        long_keys,
        nulls,
        texts_by_name,
        deep_lists,
        deep_mappings,
        one_deep_list,
        one_long_text,
        one_text_of_escapes,
        one_text_of_surrogates,
        one_text_of_quotes,
        braces,
        spaced_braces,
        stars,
        long_integer,
        integers_of_4000_digits,
        long_floats,
        same_keys,
        large_texts,
    )
}
