"""Every command's help has an example, and every example works as it stands, in a shell.

Each runs in a folder of its own, with a database that has two accounts; commands that speak to a server find one with
the local engine. An example of a server is checked with `--check`, because it would not end. A new command needs an
example of this kind; if it cannot run without a cluster, it is named in `ELSEWHERE` with the test that runs it.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.cli.lazy_commands import LazyGroup
from tests.command_shim import CommandShim
from tests.command_tree import ListedCommand, iter_commands
from tests.core_process import make_environment
from tests.integration.core.example_world import (
    BACKUP,
    PROJECT_ROOT,
    RUN_ID,
    SERVED_RUN,
    STANDS_FOR,
    build_folder,
    run_server,
)
from tests.integration.local.local_core import PROJECT

ELSEWHERE = {
    "runyard attach": "tests/cluster/server/test_live_commands.py",
    "runyard exec": "tests/cluster/server/test_live_commands.py",
    "runyard port-forward": "tests/cluster/server/test_live_commands.py",
    "runyard top": "tests/cluster/server/test_live_commands.py",
    "runyard node": "tests/cluster/node/agent_bed.py",
    "runyard node doctor": "tests/cluster/node/test_first_pod.py",
    "runyard node drain": "tests/cluster/node/test_faults.py",
    "runyard node leave": "tests/cluster/node/test_faults.py",
    "runyard node gateway": "tests/unit/node/gateway/test_proxy.py",
}
"""Commands whose examples need a cluster, and the file with the tests that run the command, or what it serves."""
CLIENT_TESTS = "tests/e2e/client/test_cli_runs.py"
TERMINAL_TESTS = "tests/e2e/client/test_terminal.py"
THINGS_TESTS = "tests/e2e/client/test_cli_things.py"
TOKEN_TESTS = "tests/e2e/client/test_cli_accounts.py"
LINES_ELSEWHERE = {
    "runyard login https://runyard.example.org --user ada": CLIENT_TESTS,
    "runyard login https://runyard.example.org --token --name lab": CLIENT_TESTS,
    "runyard run --image busybox:1.36 --yes -- echo hello": CLIENT_TESTS,
    "runyard ps -w": TERMINAL_TESTS,
    "runyard wait predict-77 --until running --timeout 5m": THINGS_TESTS,
    "runyard resume predict-77": THINGS_TESTS,
    "runyard secret set HF_TOKEN": THINGS_TESTS,
    "runyard token ls": TOKEN_TESTS,
    "runyard token ls --columns name,last-used": TOKEN_TESTS,
    "runyard token create ci --scope write --days 30": TOKEN_TESTS,
    "runyard token create laptop": TOKEN_TESTS,
    "pass show runyard/ada | runyard token create ci --scope write --days 30 --stdin > token": TOKEN_TESTS,
    "runyard token revoke ci --yes": TOKEN_TESTS,
}
"""Examples that need a terminal, a service, accounts, or podman with an image, and the tests of the command."""
SIGN_IN = ("runyard login", "runyard logout", "runyard context")
ADDRESSES = ("http://localhost:8080", "https://runyard.example.org")
"""Servers of examples; the server of this test stands for them."""
NEVER_END = ("runyard server",)
ABSENT = {"runyard init": "run.yaml", "runyard db": BACKUP, "runyard db backup": BACKUP}
"""Commands whose examples write a file that must not exist before."""
SECONDS = 60
COMMANDS = [listed for listed in iter_commands() if listed.examples]
RUN = [listed for listed in COMMANDS if listed.name not in ELSEWHERE]


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandShim]:
    shim = CommandShim(tmp_path_factory.mktemp("shim") / "bin")
    for name, text in STANDS_FOR.items():
        shim.write_program(name, text)
    yield shim
    shim.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that each example gets a copy of."""
    folder = tmp_path_factory.mktemp("world")
    build_folder(folder)
    return folder


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server, for the commands that speak to one."""
    with run_server(tmp_path_factory.mktemp("server")) as url:
        yield url


def speaks_to_server(listed: ListedCommand) -> bool:
    """Whether a command, or one of a group, has the options that say which server."""
    if isinstance(listed.command, LazyGroup):
        own = [other for other in COMMANDS if other.name.startswith(f"{listed.name} ")]
        return any(map(speaks_to_server, own))
    options = {option for param in listed.command.params for option in param.opts}
    has_options = {"--endpoint", "--context"} <= options or listed.name in SIGN_IN
    return has_options and listed.name not in NEVER_END


def run_example(line: str, *, folder: Path, shim: CommandShim, endpoint: str | None) -> str:
    """Run a shell line that succeeds; returns what it printed."""
    settings = {"RUNYARD_DATA": str(folder / "data"), "HOME": str(folder), "NO_COLOR": "1"}
    if endpoint is not None:
        settings |= {"RUNYARD_ENDPOINT": endpoint, "RUNYARD_PROJECT": PROJECT}
        for address in ADDRESSES:
            line = line.replace(address, endpoint)
    done = subprocess.run(
        ["bash", "--norc", "-eo", "pipefail", "-c", line],
        input="y\n",
        capture_output=True,
        text=True,
        cwd=folder,
        env={**make_environment(settings), "PATH": f"{shim.folder}:{os.environ['PATH']}"},
        timeout=SECONDS,
    )
    assert done.returncode == 0, (line, done.stdout[-500:], done.stderr[-1500:])
    assert "internal error" not in done.stderr
    return done.stdout


def name_of(listed: ListedCommand) -> str:
    return listed.name


def test_every_command_has_an_example_and_its_exit_codes_when_listed() -> None:
    leaves = [listed for listed in iter_commands() if not listed.has_commands]
    assert [listed.name for listed in leaves if not listed.examples] == []
    assert [listed.name for listed in leaves if not listed.exit_codes] == []
    assert [
        example
        for listed in COMMANDS
        for example in listed.examples
        if not re.search(rf"\b{re.escape(listed.name)}\b", example)
    ] == []


def test_command_is_run_by_the_test_that_is_named_when_its_examples_need_a_cluster() -> None:
    known = {listed.name: listed for listed in COMMANDS}
    names = {line: listed.name for listed in COMMANDS for line in listed.examples}
    files = {names[line]: file for line, file in LINES_ELSEWHERE.items()}
    for name, file in {**ELSEWHERE, **files}.items():
        assert known[name].examples
        assert name.split()[-1] in (PROJECT_ROOT / file).read_text(), (name, file)


@pytest.mark.parametrize("listed", RUN, ids=name_of)
def test_every_example_works_when_it_is_pasted(
    listed: ListedCommand, world: Path, shim: CommandShim, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    endpoint = request.getfixturevalue("endpoint") if speaks_to_server(listed) else None
    for number, example in enumerate(listed.examples):
        folder = tmp_path / str(number)
        shutil.copytree(world, folder)
        if listed.name in ABSENT:
            (folder / ABSENT[listed.name]).unlink()
        if endpoint is not None:
            (folder / "run.yaml").write_text(SERVED_RUN)
            run_example(f"runyard login {endpoint} --name lab", folder=folder, shim=shim, endpoint=endpoint)
        line = f"{example} --check" if listed.name in NEVER_END and "--check" not in example else example
        if example not in LINES_ELSEWHERE:
            run_example(line, folder=folder, shim=shim, endpoint=endpoint)


def test_shell_reaches_a_server_with_a_run_when_a_command_speaks_to_one(
    world: Path, shim: CommandShim, endpoint: str
) -> None:
    line = f"curl --silent --fail $RUNYARD_ENDPOINT/api/v1/-/$RUNYARD_PROJECT/runs/{RUN_ID}"
    assert json.loads(run_example(line, folder=world, shim=shim, endpoint=endpoint))["id"] == RUN_ID


def test_nothing_is_started_when_the_question_may_not_be_asked(
    world: Path, shim: CommandShim, endpoint: str, tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(world, folder)
    (folder / "run.yaml").write_text(SERVED_RUN)
    line = "{ runyard --no-input run -f run.yaml 2>&1 || echo code $?; } | tail -2"
    shown = run_example(line, folder=folder, shim=shim, endpoint=endpoint)
    assert shown == "error: --no-input leaves the question unanswered: use --yes\ncode 2\n"


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_example_can_be_parsed_when_it_is_run_elsewhere(
    name: str, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (world / "gpu.kubeconfig").touch()
    monkeypatch.chdir(world)
    (listed,) = [listed for listed in COMMANDS if listed.name == name]
    own = [shlex.split(example.removeprefix(name)) for example in listed.examples if example.startswith(f"{name} -")]
    assert own
    for words in own:
        assert listed.command.make_context(name, words, parent=listed.context.parent).args == []
