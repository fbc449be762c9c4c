"""The published SDKs download a file that the server stores, on a server without accounts."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.core_process import run_core
from tests.e2e.sdk.core import Core
from tests.e2e.sdk.driver import Driver

pytestmark = pytest.mark.timeout(600)  # the first test of a line installs its environment


@pytest.fixture(scope="module")
def open_core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Core]:
    """A server without accounts: the SDK downloads http addresses without signing in."""
    with run_core(folder=tmp_path_factory.mktemp("open")) as core:
        yield Core(endpoint=core.url)


def test_file_is_downloaded_when_the_server_stores_it(sdk: Driver, open_core: Core) -> None:
    seen = replace(sdk, core=open_core, _kept={}).run("stored_files")
    assert seen["stored"]["statuses"] == [200, 200]
    assert seen["listed"]["name"] == "weights"
    assert seen["listed"]["path"].endswith("/artifacts/w1/files/content")
    assert seen["downloaded"] == {"name": "got.bin", "is_same": True}
    assert seen["files"] == {"paths": ["net/weights.bin"]}
