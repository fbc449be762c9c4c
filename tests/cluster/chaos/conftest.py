"""A cluster to be broken at will and an installation on it, one per module, with a real node and an audit log."""

import secrets
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from testbed.cluster import Cluster
from testbed.pytest_plugin import kubernetes_version, require_machine
from tests.chaos.lab import Lab, open_cluster, open_lab
from tests.postgres import postgres

__all__ = ["postgres"]


@pytest.fixture(scope="module")
def breakable_cluster() -> Iterator[Cluster]:
    """The module's own."""
    require_machine(node=True)
    with open_cluster(kubernetes=kubernetes_version()) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installation(breakable_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    """A server with SQLite on the module's cluster, behind a fault proxy."""
    async with open_lab(breakable_cluster, tmp_path_factory.mktemp("installation")) as lab:
        yield lab


@pytest_asyncio.fixture(loop_scope="module")
async def lab(installation: Lab) -> AsyncIterator[Lab]:
    """The module's installation, without faults and without runs."""
    yield installation
    await installation.clear()


@pytest.fixture
def run_id() -> str:
    """Of a test's only run; tests of a module share an installation."""
    return f"r-{secrets.token_hex(3)}"
