"""Fixtures: a Core to drive, and a driver per line of the SDK."""

import os
from collections.abc import Iterator

import pytest

from tests.e2e.sdk.core import Core, serve_runyard, serve_stub
from tests.e2e.sdk.driver import Driver
from tests.e2e.sdk.environments import LINES, NoNetworkError, ensure_environment

STUB_VARIABLE = "RUNYARD_SDK_STUB"
ENDPOINT_VARIABLE = "RUNYARD_SDK_ENDPOINT"


@pytest.fixture(scope="session")
def core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Core]:
    """The Core that the SDKs drive: the stub, one that runs already, or a server of this checkout."""
    if os.environ.get(STUB_VARIABLE) == "1":
        with serve_stub() as stub:
            yield stub
        return
    if endpoint := os.environ.get(ENDPOINT_VARIABLE):
        yield Core(endpoint=endpoint)
        return
    with serve_runyard(tmp_path_factory.mktemp("core")) as server:
        yield server


@pytest.fixture(scope="session", params=LINES)
def sdk(request: pytest.FixtureRequest, core: Core, tmp_path_factory: pytest.TempPathFactory) -> Driver:
    """A user of one line of the SDK, with its environment installed."""
    return _driver(request.param, core, tmp_path_factory)


@pytest.fixture(scope="session")
def sdks(core: Core, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Driver]:
    """A user of each line."""
    return {line: _driver(line, core, tmp_path_factory) for line in LINES}


def _driver(line: str, core: Core, tmp_path_factory: pytest.TempPathFactory) -> Driver:
    try:
        ensure_environment(line)
    except NoNetworkError as error:
        pytest.skip(f"no environment for SDK {line}: {error}")
    return Driver(core=core, line=line, folder=tmp_path_factory.mktemp(f"sdk-{line}"))
