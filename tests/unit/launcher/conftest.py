"""A lab per test: a fake server that answers, and a folder for the launcher."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.launcher.lab import FakeServer, Lab, serve


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serve(FakeServer(effective={})) as running:
        yield running


@pytest.fixture
def lab(tmp_path: Path, server: FakeServer) -> Lab:
    return Lab(folder=tmp_path, server=server)
