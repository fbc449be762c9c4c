"""Work on large documents is done on a thread, work on small ones at once."""

import threading
from contextvars import ContextVar
from typing import Any

import pytest

from runyard.app.document_thread import LARGE_CHARACTERS, LARGE_VALUES, compute, is_large

LARGE = [
    [0] * (LARGE_VALUES + 1),
    {str(number): 0 for number in range(LARGE_VALUES + 1)},
    {"a": [[0] * 300, [0] * 300]},
    "a" * (LARGE_CHARACTERS + 1),
    {"a" * (LARGE_CHARACTERS + 1): 1},
    [{"a": "b" * 40_000}, {"a": "b" * 40_000}],
]
SMALL: list[Any] = [None, 1, {}, [0] * (LARGE_VALUES - 1), "a" * LARGE_CHARACTERS, {"a": {"b": ["c"]}}]
_request: ContextVar[str] = ContextVar("request")


@pytest.mark.parametrize("document", LARGE)
async def test_work_is_done_on_a_thread_when_its_document_is_large(document: Any) -> None:
    _request.set("this one")
    thread, request = await compute(lambda: (threading.current_thread(), _request.get()), over=document)
    assert (thread is not threading.main_thread(), request) == (True, "this one")


@pytest.mark.parametrize("document", SMALL)
async def test_work_is_done_at_once_when_its_document_is_small(document: Any) -> None:
    assert not is_large(document)
    assert await compute(threading.current_thread, over=document) is threading.current_thread()


async def test_failure_is_raised_when_the_work_on_the_thread_fails() -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await compute(fail, over=LARGE[0])
