"""The same tests for each engine: a new engine adds its lab to `LABS`."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from tests.contract.engine.lab import Capability, Lab
from tests.contract.engine.local_lab import find_capabilities, open_local_lab
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


CAPABILITIES: Mapping[str, frozenset[Capability]] = {
    "memory": MemoryLab.capabilities,
    "process": find_capabilities(),
    "podman": find_capabilities(),
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*capabilities): only for labs that can do that (`lab.needs`)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Collect a test for the labs that can do what it needs."""
    if "lab" not in metafunc.fixturenames:
        return
    needed = {capability for mark in metafunc.definition.iter_markers("needs") for capability in mark.args}
    metafunc.parametrize("lab", [name for name in LABS if needed <= CAPABILITIES[name]], indirect=True)


@pytest.fixture
async def lab(request: pytest.FixtureRequest) -> AsyncIterator[Lab]:
    """An engine without runs."""
    async with LABS[request.param]() as opened:
        yield opened
