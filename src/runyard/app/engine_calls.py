"""Calls to an engine with a timeout; every failure becomes an `EngineError`."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import TypeVar

from runyard.app.engine import EngineError, EngineUnavailable
from runyard.domain.reasons import Reason

CALL_SECONDS = 30.0
"""The timeout of one call to an engine."""

Result = TypeVar("Result")

_log = logging.getLogger(__name__)


async def call_engine(call: Awaitable[Result], *, seconds: float = CALL_SECONDS) -> Result:
    """Await a call. Raises `EngineUnavailable` after a timeout and for every unexpected failure."""
    try:
        async with asyncio.timeout(seconds):
            return await call
    except TimeoutError:
        raise EngineUnavailable(Reason.ENGINE_TIMEOUT, f"no answer within {seconds:g} s") from None
    except EngineError:
        raise
    except Exception as error:
        # Its text may hold anything, secrets included; only the log has it.
        _log.exception("a call to the engine failed")
        raise EngineUnavailable(Reason.ENGINE_FAILED, f"the call failed: {type(error).__name__}") from error
