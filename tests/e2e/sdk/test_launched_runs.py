"""Handlers written for DigitalHub, unchanged, under the real launcher: with each line of the SDK on both sides."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.sdk.core import Core
from tests.e2e.sdk.driver import Driver
from tests.e2e.sdk.environments import LINES, NoNetworkError, ensure_environment
from tests.integration.launcher.launching_core import USER, run_launching_core

pytestmark = pytest.mark.timeout(600)  # the first test of a line installs its environment


@pytest.fixture(scope="module", params=LINES)
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What a user of a line saw of runs that were launched on the same line."""
    try:
        python = ensure_environment(request.param)
    except NoNetworkError as error:
        pytest.skip(f"no environment for SDK {request.param}: {error}")
    credentials = {"DHCORE_USER": USER[0], "DHCORE_PASSWORD": USER[1]}
    with run_launching_core(tmp_path_factory.mktemp("core"), python=str(python)) as core:
        driver = Driver(
            core=Core(endpoint=core.url, credentials=credentials),
            line=request.param,
            folder=tmp_path_factory.mktemp("sdk"),
        )
        yield driver.saw("launched_runs")


def read_status(seen: dict[str, Any], name: str) -> dict[str, Any]:
    status: dict[str, Any] = seen[name]["run"]["status"]
    return status


def test_outputs_have_the_decorators_names_when_a_handler_has_them(seen: dict[str, Any]) -> None:
    status = read_status(seen, "decorated")
    assert status["state"] == "COMPLETED", status
    assert status["results"] == {"total": 42, "name": seen["decorated"]["run"]["project"]}


def test_handler_gets_project_context_and_run_when_it_asks_for_them(seen: dict[str, Any]) -> None:
    run, status = seen["context"]["run"], read_status(seen, "context")
    assert status["state"] == "COMPLETED", status
    assert status["results"] == {"output_0": run["project"], "output_1": run["id"], "output_2": run["id"]}


def test_result_is_output_0_when_a_handler_has_no_decorator(seen: dict[str, Any]) -> None:
    status = read_status(seen, "plain")
    assert (status["state"], status["results"]) == ("COMPLETED", {"output_0": 42})


def test_result_is_awaited_when_a_decorated_handler_is_async(seen: dict[str, Any]) -> None:
    status = read_status(seen, "async")
    assert (status["state"], status["results"]) == ("COMPLETED", {"late": 5})


def test_entity_is_an_output_when_a_handler_returns_one(seen: dict[str, Any]) -> None:
    run, status = seen["entity"]["run"], read_status(seen, "entity")
    assert status["state"] == "COMPLETED", status
    assert status["outputs"]["output_0"].startswith(f"store://{run['project']}/artifact/artifact/made:")


def test_input_is_an_entity_when_its_key_was_given(seen: dict[str, Any]) -> None:
    status = read_status(seen, "input")
    assert (status["state"], status["results"]) == ("COMPLETED", {"output_0": "made", "output_1": "artifact"})


def test_message_is_the_exception_when_a_decorated_handler_raises(seen: dict[str, Any]) -> None:
    status = read_status(seen, "failing")
    assert (status["state"], status["message"]) == ("ERROR", "ValueError: as written (main.py:6)")
