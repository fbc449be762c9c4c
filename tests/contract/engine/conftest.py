"""The same tests for each engine: a new engine adds its lab to `LABS`."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from tests.contract.engine.lab import Lab
from tests.contract.engine.local_lab import open_local_lab
from tests.contract.engine.memory_lab import MemoryLab
from tests.contract.engine.podman_lab import open_podman_lab, podman_ends
from tests.engines.memory import MemoryEngine


@asynccontextmanager
async def open_memory_lab(engine: MemoryEngine | None = None) -> AsyncIterator[Lab]:
    """An engine in memory, possibly a broken one."""
    lab = MemoryLab(engine)
    await lab.engine.ensure_project(lab.project)
    await lab.engine.ensure_project(lab.other_project)
    yield lab


__all__ = ["podman_ends"]

LABS: Mapping[str, Callable[[], AbstractAsyncContextManager[Lab]]] = {
    "memory": open_memory_lab,
    "process": open_local_lab,
    "podman": open_podman_lab,
}


@pytest.fixture(params=LABS)
async def lab(request: pytest.FixtureRequest) -> AsyncIterator[Lab]:
    """An engine without runs."""
    async with LABS[request.param]() as opened:
        yield opened
