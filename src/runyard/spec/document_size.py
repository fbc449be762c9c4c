"""How many values and characters a parsed document has, counted no further than a bound."""

from typing import Any

from runyard.spec.problem_codes import Code
from runyard.spec.readers import refuse


def check_values(document: Any, *, most: int) -> None:
    """Raises `Refused` if a document has more values than that, those in lists and mappings included."""
    if count_values(document, most=most) > most:
        raise refuse(Code.SIZE_VALUES, "has too many values", allowed=f"at most {most}, nested ones included")


def count_values(document: Any, *, most: int, most_characters: int | None = None) -> int:
    """How many values a document has, itself included; more than `most` if it has more, or too many characters."""
    waiting, count, characters = [document], 0, 0
    while waiting:
        value = waiting.pop()
        count += 1
        if isinstance(value, dict):
            waiting += value.values()
            if most_characters is not None:
                characters += sum(map(len, value)) if len(value) <= most else most_characters + 1
        elif isinstance(value, list | tuple):
            waiting += value
        elif isinstance(value, str | bytes):
            characters += len(value)
        # What waits will be counted, so that a long list is known to be long at once.
        if count + len(waiting) > most or (most_characters is not None and characters > most_characters):
            return most + 1
    return count
