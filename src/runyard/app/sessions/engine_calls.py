"""One call to the engine on behalf of a request."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from runyard.app.engine import EngineError, EngineUnavailable
from runyard.domain.reasons import Reason

T = TypeVar("T")
_log = logging.getLogger(__name__)


async def call_engine(call: Callable[[], Awaitable[T]], *, seconds: float) -> T:
    """What the call returns within that time; every failure becomes an `EngineError`."""
    try:
        async with asyncio.timeout(seconds):
            return await call()
    except TimeoutError:
        raise EngineUnavailable(Reason.ENGINE_TIMEOUT, f"the engine did not answer within {seconds:g} s") from None
    except EngineError:
        raise
    except Exception as error:
        raise wrap_failure(error) from error


def wrap_failure(error: Exception) -> EngineUnavailable:
    """An unexpected failure of the engine, as clients see it. Its text may hold secrets: only the log has it."""
    _log.error("a call to the engine failed", exc_info=error)
    return EngineUnavailable(Reason.ENGINE_FAILED, f"the call failed: {type(error).__name__}")
