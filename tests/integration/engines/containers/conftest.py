from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.engines.local.containers import ContainerRuntime
from tests.contract.engine.podman_lab import podman_ends
from tests.integration.engines.containers.lab import open_runtime
from tests.unit.procs.lab import Lab

__all__ = ["podman_ends"]


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerRuntime]:
    with open_runtime(tmp_path_factory.mktemp("place")) as runtime:
        yield runtime


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    yield lab
    lab.close()
