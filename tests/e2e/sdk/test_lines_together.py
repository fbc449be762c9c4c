"""Colleagues with different lines of the SDK in one project: what one wrote breaks no list of another."""

import pytest

from tests.e2e.sdk.driver import Driver, Seen
from tests.e2e.sdk.environments import LINES

pytestmark = pytest.mark.timeout(600)  # four environments may have to be installed

LISTS = {
    "list_functions": ["container", "python"],
    "list_tasks": ["container+job", "container+serve", "python+job"],
    "list_secrets": ["secret"],
    "list_artifacts": ["artifact"],
    "list_dataitems": ["dataitem"],
    "list_models": ["model"],
}
OLD_RUNS = ["container+run", "container+run", "python+run", "python+run"]
NEW_RUNS = ["container+job:run", "container+serve:run", "python+job:run", "python+job:run"]


@pytest.fixture(scope="module")
def projects(sdks: dict[str, Driver]) -> dict[str, str]:
    """A project by each line, with one of everything."""
    names = {line: sdk.new_project_name("together") for line, sdk in sdks.items()}
    for line, sdk in sdks.items():
        sdk.run("populate", project=names[line])
    return names


@pytest.fixture(scope="module")
def reports(sdks: dict[str, Driver], projects: dict[str, str]) -> dict[str, dict[str, Seen]]:
    """What each line saw of all the projects."""
    settings = {"RUNYARD_SDK_READ": ",".join(projects.values())}
    return {line: sdk.run("reading", settings=settings) for line, sdk in sdks.items()}


@pytest.mark.parametrize("writer", LINES)
@pytest.mark.parametrize("reader", LINES)
def test_lists_are_whole_when_another_line_wrote_them(
    reader: str, writer: str, reports: dict[str, dict[str, Seen]], projects: dict[str, str]
) -> None:
    seen = reports[reader][projects[writer]]
    assert seen["project"]["error"] is None
    assert {name: seen[name] for name in LISTS} == {
        name: {"error": None, "kinds": kinds} for name, kinds in LISTS.items()
    }
    assert set(projects.values()) <= set(reports[reader]["projects"]["names"])


@pytest.mark.parametrize("writer", LINES)
@pytest.mark.parametrize("reader", LINES)
def test_runs_are_listed_when_the_reader_knows_their_kind(
    reader: str, writer: str, reports: dict[str, dict[str, Seen]], projects: dict[str, str]
) -> None:
    seen = reports[reader][projects[writer]]["list_runs"]
    if reader != "0.16" and (reader == "0.13") != (writer == "0.13"):
        # The SDK of these lines has no class for the other's runs and gives up by itself; no answer can help.
        assert seen["error"] == "BuilderError"
        return
    assert seen == {"error": None, "kinds": OLD_RUNS if writer == "0.13" else NEW_RUNS}
