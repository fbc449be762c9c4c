"""pytest plugin: the order of the tests under `pytest -n`, where each worker takes the next file when it has done one.

Files that take long come first, so that no worker begins one when the others are done: tests marked `long`, then
whatever waits for a cluster or for processes, then the unit tests, which are small. While Kubernetes is being compiled,
the tests that need it come last. Without `-n` the order stays as it is.
"""

import pytest

from testbed.pytest_plugin import is_kubernetes_ready

# The folders whose files take long, in the order in which they start.
_FOLDERS = ("tests/cluster/", "tests/contract/engine/", "tests/e2e/", "tests/integration/", "tests/contract/")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: takes more than a minute by itself; its file is started first")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not hasattr(config, "workerinput"):
        return
    long_files = {item.path for item in items if item.get_closest_marker("long")}
    is_ready = is_kubernetes_ready()

    def rank(item: pytest.Item) -> tuple[bool, bool, int]:
        must_wait = not is_ready and item.get_closest_marker("kubernetes") is not None
        folder = next((place for place, name in enumerate(_FOLDERS) if item.nodeid.startswith(name)), len(_FOLDERS))
        return must_wait, item.path not in long_files, folder

    items.sort(key=rank)
