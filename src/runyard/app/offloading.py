"""Work on large documents, on a thread: a large document must not hold the event loop.

There is one such thread per process. Python runs one thread at a time anyway, and several busy ones would keep the
event loop waiting for its turn.
"""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

from runyard.spec.problem_codes import Code
from runyard.spec.readers import refuse

LARGE_VALUES = 500
LARGE_CHARACTERS = 1 << 16
"""Documents with more values or characters are read, checked and written on the thread."""
T = TypeVar("T")


async def compute(work: Callable[[], T], *, over: Any) -> T:
    """What the work returns; done on the thread if what it goes over is large. The work may use no event loop."""
    if not is_large(over):
        return work()
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(_get_thread(), context.run, work)


def is_large(document: Any) -> bool:
    """Whether a document has more than `LARGE_VALUES` values or `LARGE_CHARACTERS` characters. Stops when it knows."""
    return count_values(document, most=LARGE_VALUES, most_characters=LARGE_CHARACTERS) > LARGE_VALUES


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
        elif isinstance(value, str):
            characters += len(value)
        # What waits will be counted, so that a long list is known to be long at once.
        if count + len(waiting) > most or (most_characters is not None and characters > most_characters):
            return most + 1
    return count


@cache
def _get_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="large-documents")
