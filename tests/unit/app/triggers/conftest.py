"""The project that the triggers of all tests fire in."""

import pytest

from tests.unit.app.run_world import World
from tests.unit.app.shop import furnish


@pytest.fixture
async def shop(bare_world: World) -> World:
    """A project with a function and a task, and an account for Ada, who made it all."""
    await furnish(bare_world)
    return bare_world
