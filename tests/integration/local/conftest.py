"""A server with the local engine, for each test module."""

from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest

from tests.core_process import CoreProcess
from tests.integration.local.killable_core import Spawner
from tests.integration.local.local_core import PROJECT, end_runs, make_project, run_local_core


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoreProcess]:
    """A server; its runs end with it."""
    folder = tmp_path_factory.mktemp("local")
    try:
        with run_local_core(folder) as running:
            yield running
    finally:
        end_runs(folder)


@pytest.fixture
async def client(core: CoreProcess) -> AsyncIterator[httpx2.AsyncClient]:
    """A client, and a project."""
    async with core.client() as client:
        if (await client.get(f"/api/v1/projects/{PROJECT}")).status_code == 404:
            await make_project(client)
        yield client


@pytest.fixture(scope="session")
def spawner() -> Iterator[Spawner]:
    """Starts servers that tests kill."""
    process = Spawner()
    yield process
    process.close()
