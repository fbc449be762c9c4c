"""Logs into a text that tests can read; everything is as it was afterwards."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from runyard.telemetry import set_up_logging


class LogLines:
    """What was logged, as JSON."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


@pytest.fixture
def keep_logging() -> Iterator[None]:
    root, before, level = logging.getLogger(), list(logging.getLogger().handlers), logging.getLogger().level
    yield
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
def written(keep_logging: None) -> LogLines:
    """Everything from debug on."""
    taken = LogLines()
    set_up_logging(level="debug", form="json", stream=taken.stream)
    return taken
