"""Calls to an engine with a timeout; every failure becomes an `EngineError`."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import TypeVar

from runyard.app.engine import EngineError, EngineUnavailable
from runyard.app.errors import Conflict
from runyard.domain.reasons import Reason

CALL_SECONDS = 30.0
"""The timeout of one call to an engine."""

Result = TypeVar("Result")

_log = logging.getLogger(__name__)


async def call_engine(call: Awaitable[Result], *, seconds: float = CALL_SECONDS) -> Result:
    """Await a call. Raises `EngineUnavailable` after a timeout and for every unexpected failure.

    Raises `Conflict` too: work around a call may find that a user was faster, which is no failure of the engine.
    """
    try:
        async with asyncio.timeout(seconds):
            return await call
    except TimeoutError:
        raise EngineUnavailable(Reason.ENGINE_TIMEOUT, f"the engine did not answer within {seconds:g} s") from None
    except (EngineError, Conflict):
        raise
    except Exception as error:
        raise wrap_failure(error) from error


def wrap_failure(error: Exception) -> EngineUnavailable:
    """An unexpected failure of the engine, as clients see it. Its text may hold secrets: only the log has it."""
    _log.error("a call to the engine failed", exc_info=error)
    return EngineUnavailable(Reason.ENGINE_FAILED, f"the call failed: {type(error).__name__}")
