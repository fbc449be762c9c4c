"""Servers as processes, on each engine: `core` is one that runs, `settings` what starts one."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.core_process import COMMAND, CoreProcess, make_client, run_core
from tests.postgres import postgres

__all__ = ["postgres"]

ENGINES = ("sqlite", "postgresql")
PROJECT = "/api/v1/-/demo"
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Place:
    """A database of one's own and a folder for what else a server keeps."""

    database: str
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)


@pytest.fixture(params=ENGINES, scope="session")
def engine(request: pytest.FixtureRequest) -> str:
    """Which one it is."""
    name: str = request.param
    return name


def make_place(engine: str, request: pytest.FixtureRequest, folder: Path) -> Place:
    """An empty database; the URL, with its password, goes by the variable, as the docs say."""
    if engine == "sqlite":
        url = f"sqlite:///{folder}/runyard.db"
    else:
        url = request.getfixturevalue("postgres").create_database()
    return Place(url, folder, {"RUNYARD_DATABASE": url})


@pytest.fixture
def place(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """For a server of the test's own."""
    return make_place(engine, request, tmp_path)


@pytest.fixture
def core(place: Place) -> Iterator[CoreProcess]:
    """A server of the test's own, without accounts and without a limit that tests would run into."""
    with run_core("--max-requests", "100000", folder=place.folder, environment=place.environment) as running:
        yield running


@pytest.fixture(scope="session")
def shared_place(engine: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """For the server that tests share."""
    return make_place(engine, request, tmp_path_factory.mktemp("core"))


@pytest.fixture(scope="session")
def shared_cores(engine: str, shared_place: Place) -> Iterator[list[CoreProcess]]:
    """As many servers on one database as the engine allows, up to two: they take long to start, so tests share them."""
    environment, folder = shared_place.environment, shared_place.folder
    with ExitStack() as stack:
        # The installed command, whose start is told and tested.
        first = run_core("--max-requests", "100000", folder=folder / "a", environment=environment, program=COMMAND)
        cores = [stack.enter_context(first)]
        if engine == "postgresql":
            key = {"RUNYARD_KEY_FILE": str(folder / "a" / "data" / "key")}
            second = run_core("--max-requests", "100000", folder=folder / "b", environment={**environment, **key})
            cores.append(stack.enter_context(second))
        yield cores


@pytest.fixture
async def clients(shared_cores: list[CoreProcess]) -> AsyncIterator[list[httpx2.AsyncClient]]:
    """Two clients, of two servers where there are two."""
    urls = [shared_cores[0].url, shared_cores[-1].url]
    async with make_client(urls[0]) as first, make_client(urls[1]) as second:
        yield [first, second]


@pytest.fixture
async def project(clients: list[httpx2.AsyncClient]) -> str:
    """A project of the test's own, with the function `f-NAME` and its task `t-NAME`."""
    name = f"p{next(_numbers)}"
    await fill(clients[0], name)
    return name


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Print figures where they are seen, though the test passes."""

    def tell_now(line: str) -> None:
        with capsys.disabled():
            print(f"\n{line}", end="")  # noqa: T201 - the figures are the proof

    return tell_now


async def fill(client: httpx2.AsyncClient, project: str = "demo") -> None:
    """The project with a function and its task."""
    function = {"kind": "container", "name": "hello", "id": f"f-{project}", "spec": {"image": "busybox:1.36"}}
    task = {
        "kind": "container+job",
        "id": f"t-{project}",
        "spec": {"function": f"container://{project}/hello:f-{project}"},
    }
    for path, document in (
        ("/api/v1/projects", {"kind": "project", "name": project}),
        (f"/api/v1/-/{project}/functions", function),
        (f"/api/v1/-/{project}/tasks", task),
    ):
        answer = await client.post(path, json=document)
        assert answer.status_code == 200, answer.text


def make_run(project: str, run_id: str, **more: Any) -> dict[str, Any]:
    """A run of the project's task."""
    return {
        "kind": "container+job:run",
        "id": run_id,
        "spec": {"task": f"container+job://{project}/t-{project}"},
        **more,
    }
