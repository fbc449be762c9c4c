"""Fixtures of the application's tests: `world` is a Core with an engine in memory, `bare_world` one without engine."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.app.run_world import World, open_world


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Empty, with an engine."""
    async with open_world() as opened:
        yield opened


@pytest.fixture
async def bare_world() -> AsyncIterator[World]:
    """Empty, without an engine."""
    async with open_world(has_engine=False) as opened:
        yield opened
