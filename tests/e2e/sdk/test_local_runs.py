"""Each line of the published SDK against a server with the local engine: runs really run, and end as users expect.

One server for all lines. What a function of DigitalHub needs is installed by the engine itself, from wheels on this
machine: nothing is downloaded.
"""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from runyard.engines.local.containers import RuntimeMissing, find_runtime, remove_strays
from testbed import images
from testbed.errors import TestbedError
from tests.contract.engine.local_lab import iter_supervisors, make_folder
from tests.core_process import call_runyard, run_core
from tests.e2e.sdk.core import Core
from tests.e2e.sdk.driver import Driver
from tests.e2e.sdk.environments import LINES, NoNetworkError
from tests.e2e.sdk.wheels import ensure_wheels, list_requirements
from tests.integration.engines.containers.lab import IMAGE, call

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]  # the first test installs the environments of all lines

USER = {"DHCORE_USER": "ada", "DHCORE_PASSWORD": "the password of ada"}
UV_SETTINGS = "no-index = true\n[pip]\nno-deps = true\n"
"""The pins of a line are complete, but for what `excluded.txt` names."""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder for a server, of whose runs nothing is left afterwards."""
    made = make_folder()
    yield made
    for pid in list(iter_supervisors(made / "data" / "local")):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    subprocess.run(["rm", "-rf", str(made)], check=False)  # four environments: faster than shutil


@pytest.fixture(scope="module")
def core(folder: Path) -> Iterator[Core]:
    """A server with the local engine, and an account."""
    try:
        wheels = ensure_wheels(LINES)
    except NoNetworkError as error:
        pytest.skip(f"no environments of the SDK: {error}")
    name, password = USER.values()
    data = ("--data", str(folder / "data"))
    done = call_runyard("user", "create", name, "--password-stdin", *data, given=password)
    assert done.code == 0, done.err
    settings = folder / "uv.toml"
    settings.write_text(UV_SETTINGS)
    environment = {"UV_FIND_LINKS": str(wheels), "UV_CONFIG_FILE": str(settings), "UV_OFFLINE": "1"}
    arguments = ("--engine", "local", "--auth", "accounts", "--max-requests", "100000")
    with run_core(*arguments, folder=folder, environment=environment) as server:
        yield Core(endpoint=server.url, credentials=USER)


@pytest.fixture(scope="module")
def image(core: Core, folder: Path) -> Iterator[str | None]:
    """An image in the store of the server's podman; None if the machine has no podman that works."""
    place = folder / "data" / "local"
    uid = json.loads((place / "place.json").read_text())["uid"]
    (place / "containers").mkdir(mode=0o700, exist_ok=True)
    try:
        runtime = find_runtime(place / "containers" / "storage", place_uid=uid, programs=["podman"])
        archive = images.ensure_busybox().archive
    except (RuntimeMissing, TestbedError):
        yield None
        return
    call(runtime, "load", "--quiet", "--input", str(archive))
    yield IMAGE
    remove_strays(runtime, is_kept=lambda _: False)
    shutil.rmtree(runtime.memory, ignore_errors=True)


@pytest.fixture(scope="module", params=LINES)
def seen(
    request: pytest.FixtureRequest, core: Core, image: str | None, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What a user of one line saw."""
    driver = Driver(core=core, line=request.param, folder=tmp_path_factory.mktemp("sdk"))
    requirements = json.dumps(list_requirements(request.param))
    settings = {"RUNYARD_SDK_REQUIREMENTS": requirements, **({"RUNYARD_SDK_IMAGE": image} if image else {})}
    return driver.run("local_runs", settings=settings)


def read_status(seen: dict[str, Any], step: str, state: str) -> dict[str, Any]:
    """The status of a run that is in this state."""
    status: dict[str, Any] = seen[step]["run"]["status"]
    assert status["state"] == state, status
    return status


def test_job_completes_with_its_results_when_it_has_parameters(seen: dict[str, Any]) -> None:
    read_status(seen, "job", "COMPLETED")
    expected = {"deep": {"list": [1, "two", None]}, "word": "none", "variable": "hello"}
    assert seen["job"]["results"] == {"output_0": 42, "output_1": expected}


def test_log_has_both_outputs_when_it_is_read(seen: dict[str, Any]) -> None:
    assert seen["job"]["log"].endswith("x is 41\nto the other side\n")


def test_handler_written_for_digitalhub_runs_unchanged_when_its_packages_are_required(seen: dict[str, Any]) -> None:
    run, status = seen["written"]["run"], read_status(seen, "written", "COMPLETED")
    expected = {"total": 42, "project": run["project"], "run": run["id"], "item": seen["written"]["item"]}
    assert status["results"] == expected
    assert "from the logger of the context" in seen["written"]["log"]


def test_message_is_the_exception_when_a_job_fails(seen: dict[str, Any]) -> None:
    assert read_status(seen, "failed", "ERROR")["message"] == "ValueError: as written: 3 (main.py:3)"


def test_job_is_stopped_when_its_user_stops_it(seen: dict[str, Any]) -> None:
    assert seen["endless"]["state"] == "RUNNING"
    read_status(seen, "stopped", "STOPPED")


def test_service_answers_when_it_is_invoked(seen: dict[str, Any]) -> None:
    assert read_status(seen, "served", "RUNNING")["service"]["url"].startswith("127.0.0.1:")
    assert seen["invoked"] == {"status": 200, "answer": {"next": 42}, "direct": {"next": 2}}


def test_service_is_gone_when_it_was_deleted(seen: dict[str, Any]) -> None:
    assert seen["deleted"] == {"is_gone": True, "is_silent": True}


def test_container_completes_when_the_machine_has_podman(seen: dict[str, Any], image: str | None) -> None:
    if image is None:
        pytest.skip("this machine has no podman that works")
    read_status(seen, "box", "COMPLETED")
    assert seen["box"]["log"].endswith("from a box\n")
