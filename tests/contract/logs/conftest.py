"""The same tests on each log store: `open_store()` opens it, again and again the same one; `logs` is one, empty."""

import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from runyard.app.log_store import LogStore
from runyard.logs import open_logs

KINDS = ("database", "folder", "s3")
OpenLogs = Callable[[], LogStore]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
async def open_store(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[OpenLogs]:
    """Opens the store of this test; what was opened is closed after it."""
    opened: list[LogStore] = []
    prefix = f"tests/{uuid.uuid4().hex}"

    def open_again() -> LogStore:
        if kind == "s3":
            store = request.getfixturevalue("s3_server").open_logs(prefix)
        else:
            store = open_logs(f"{kind}:{tmp_path / 'logs'}")
        opened.append(store)
        return store  # type: ignore[no-any-return]  # the fixture's value is not typed

    yield open_again
    for store in opened:
        await store.close()


@pytest.fixture
def logs(open_store: OpenLogs) -> LogStore:
    """An empty one."""
    return open_store()
