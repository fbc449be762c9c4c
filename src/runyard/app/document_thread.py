"""The thread for work on large documents, which must not hold the event loop.

There is one such thread per process. Python runs one thread at a time anyway, and several busy ones would keep the
event loop waiting for its turn.
"""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

from runyard.spec.document_size import count_values

LARGE_VALUES = 500
LARGE_CHARACTERS = 1 << 16
"""Documents with more values or characters are read, checked and written on the thread."""
T = TypeVar("T")


async def compute(work: Callable[[], T], *, over: Any) -> T:
    """What the work returns; done on the thread if what it goes over is large. The work may use no event loop."""
    return await compute_on_thread(work) if is_large(over) else work()


async def compute_on_thread(work: Callable[[], T]) -> T:
    """What the work returns, done on the thread. The work may use no event loop."""
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(_get_thread(), context.run, work)


def is_large(document: Any) -> bool:
    """Whether a document has more than `LARGE_VALUES` values or `LARGE_CHARACTERS` characters. Stops when it knows."""
    return count_values(document, most=LARGE_VALUES, most_characters=LARGE_CHARACTERS) > LARGE_VALUES


@cache
def _get_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="large-documents")
